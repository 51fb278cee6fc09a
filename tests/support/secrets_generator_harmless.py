"""Texts with no secret that resemble one, by category (redaction.md 12): nothing may change.

The first word of a category names its group; ``hash``, ``id``, ``placeholder`` and ``mark`` allow
no alarm at all. Lines without random parts are there too: prose, code and configuration.
"""

from __future__ import annotations

import base64
import json

from secrets_generator_draw import Draw, shapes
from secrets_generator_fixed import FIXED

ZERO_GROUPS = frozenset({"hash", "id", "placeholder", "mark"})

# one line a variant; a category may have several; ``¶`` is a line break
RANDOM = """
hash git: commit {h:40}
hash git-2: see {h:9} and {h:12} in the log
hash git-3: fixed by acme/shop@{h:40}
hash md5: md5: {h:32}  shop.tar.gz
hash md5-2: MD5 (a.iso) = {h:32}
hash sha1: sha1sum {h:40} *a.bin
hash sha256: sha256:{h:64}
hash sha256-2: SHA-256 = {h:64}
hash sha256-3: "checksum": "{h:64}",
hash sha512: sha512: {h:128}
hash sri: integrity="sha384-{b:64}"
hash sri-2: "integrity": "sha512-{b:86}=="
hash image: nginx:1.27@sha256:{h:64}
hash etag: ETag: W/"{h:32}"
hash pgp: Key fingerprint = {H:4} {H:4} {H:4} {H:4} {H:4}  {H:4} {H:4} {H:4} {H:4} {H:4}
hash ssh-fingerprint: 256 SHA256:{b:43} bob@host (ED25519)
hash tls-fingerprint: sha256 Fingerprint={H:2}:{H:2}:{H:2}:{H:2}:{H:2}:{H:2}:{H:2}:{H:2}
hash npm-lock: "resolved": "https://registry.npmjs.org/a/-/a-1.2.3.tgz", "integrity": "sha512-{b:86}=="
hash yarn-lock: a@^1.0.0:¶  version "1.0.2"¶  resolved "https://registry.yarnpkg.com/a/-/a-1.0.2.tgz#{h:40}"
hash yarn-berry: checksum: 10c0/{h:128}
hash go-sum: golang.org/x/net v0.20.1 h1:{b:43}=
hash go-sum-2: github.com/DataDog/zstd v1.5.2/go.mod h1:{b:43}=
hash cargo-lock: checksum = "{h:64}"
hash uv-lock: { url = "https://files.pythonhosted.org/packages/{h:2}/{h:2}/{h:60}/a-1.0.whl", hash = "sha256:{h:64}" }
hash pip-hash: --hash=sha256:{h:64} \\
hash terraform-lock: "zh:{h:64}",
hash terraform-h1: "h1:{b:43}=",
hash nix: sha256 = "sha256-{b:43}=";
hash nix-store: /nix/store/{l:32}-openssl-3.0.12
hash yocto: SRCREV = "{h:40}"
hash password-hash: password_hash: {h:64}
hash token-digest: token_sha256={h:64}
hash docker-layer: {h:12}: Pull complete
hash agent: agent_instance_id_hash: sha256:{h:64}
id uuid: request {uuid} failed
id uuid-2: "id": "{uuid}", "parent_id": "{uuid}"
id uuid-list: users: {uuid}, {uuid} and {uuid}
id uuid-pdf: <xmpMM:DocumentID>uuid:{uuid}</xmpMM:DocumentID>
id ulid: order 01{u:24} shipped
id ksuid: event 2{a:26} seen
id nanoid: "session_id": "{w:21}"
id traceparent: traceparent: 00-{h:32}-{h:16}-01
id request: X-Request-Id: {h:32}
id amz-request: x-amz-request-id: {u:16}
id pod: pod/web-{h:10}-{l:5} Running
id replica: replicaset.apps/checkout-{l:10}
id arn: arn:aws:iam::{d:12}:role/deploy
id arn-secret: arn:aws:secretsmanager:eu-west-1:{d:12}:secret:prod/db-{a:6}
id ec2: i-{h:17} in vpc-{h:17} from ami-{h:17}
id aws-unique: <AROA/AIDA/AGPA/AIPA/ANPA>{3:16} assumed the role
id subscription: --subscription {uuid}
id azure-tenant: tenant_id = "{uuid}"
id azure-client: "clientId": "{uuid}"
id cloud-zone: zone_id: {h:32}
id channel: <#{d:18}> in guild {d:18}
id slack-channel: posted to C{u:10} by U{u:10}
id twilio-account: account AC|{h:32}
id firebase-app: appId: "1:{d:12}:web:{h:22}"
id firebase-measure: measurementId: "G-{u:10}"
id stripe: pi_{a:24} for cus_{a:14}, price_{a:24}
id stripe-event: evt_{a:24} in_{a:24}
id stripe-public: pk|_live_{a:24}
id supabase-public: sb|_publishable_{w:22}_{a:8}
id sentry-dsn: https://{h:32}@o{d:6}.ingest.sentry.io/{d:7}
id google-client: {d:12}-{l:32}.apps.googleusercontent.com
id google-analytics: UA-{d:8}-1
id chain-address: send 0.1 to 0x{h:40}
id chain-transaction: tx 0x{h:64} mined in block 0x{h:64}
id bitcoin-address: pay bc1q{l:38}
id bitcoin-legacy: to 1{5:33}
id cid: ipfs://bafybei{c:52}
id cid-0: /ipfs/Qm{5:44}
id magnet: magnet:?xt=urn:btih:{h:40}&dn=linux.iso
id issn: ISBN 978-{d:1}-{d:2}-{d:6}-{d:1}
id epoch: at {d:13} and {d:10}
id order: order 2025-{d:8}, ticket INC{d:7}
id youtube: https://www.youtube.com/watch?v={w:11}
id gist: https://gist.github.com/bob/{h:32}
id commit-url: https://github.com/acme/shop/commit/{h:40}
id doc-url: https://docs.google.com/document/d/{w:44}/edit
id figma-url: https://www.figma.com/file/{a:22}/Shop
id mongo: ObjectId("{h:24}")
id message: Message-ID: <{a:30}@mail.acme.io>
id build: build-{d:8}.{h:7}
id container: docker logs {h:12} && docker rm {h:64}
id cursor: "next_cursor": "{d:19}"
id idempotency: Idempotency-Key: {uuid}
id cache-key: cache_key = "user:{d:5}:{h:32}"
id public-key-label: public_key: {b:43}=
id foreign-key: "foreign_key": "order_{h:12}"
public ssh: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b:43} bob@host
public ssh-rsa: ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ{b:300} bob@host
public wireguard: [Peer]¶PublicKey = {b:43}=¶AllowedIPs = 0.0.0.0/0
public age: age1qyqszqgpqyqszqgpqyqszqgpqyqszqgp{l:27}
public pem: -----BEGIN PUBLIC KEY-----¶{b:64}¶{b:60}==¶-----END PUBLIC KEY-----
public certificate: -----BEGIN CERTIFICATE-----¶{b:64}¶{b:64}¶{b:30}==¶-----END CERTIFICATE-----
public request: -----BEGIN CERTIFICATE REQUEST-----¶{b:64}¶{b:64}¶-----END CERTIFICATE REQUEST-----
public signature: -----BEGIN PGP SIGNATURE-----¶¶{b:64}¶{b:64}¶-----END PGP SIGNATURE-----
data colour: --accent: #{h:6}; background: #{h:8}
data asset: <script src="/assets/index-{w:8}.js"></script>
data chunk: static/js/main.{h:8}.chunk.js
data image: data:image/png;base64,{b:400}
data font: url(data:font/woff2;base64,{b:300})
data sourcemap: //# sourceMappingURL=data:application/json;base64,{b:200}
data attachment: Content-Transfer-Encoding: base64¶¶{b:76}¶{b:76}¶{b:76}
data numbers: 3.14159 {d:6} {d:12} 1e-9 0x{h:8}
data minified: !function(e,t){var n=t({d:4});e.{c:2}=function(r){return n[r]||"{c:6}"}}(this,window);
config shortcut: "key": "ctrl+shift+<down/up/p/k>"
config shortcut-2: { "key": "alt+f{d:1}", "command": "editor.action.rename" }
config token-count: max_tokens={d:4}, token_count: {d:5}, "total_tokens": {d:4}
config cloud-types: "AWS::SecretsManager::Secret": "{h:16}",¶"AWS::IAM::AccessKey": "{h:16}"
config cloud-types-2: "AWS::Redshift::EndpointAuthorization": "{h:16}"
config version: token-service: v1.{d:2}.{d:1}
config release: <a/b/c>@{d:1}.{d:2}.{d:1}, express@4.{d:2}.0
path home: /home/bob/.config/{c:8}/tokens/{c:6}.json
path secret-file: password_file: /run/secrets/{c:6}_password
path windows: C:\\\\Users\\\\bob\\\\AppData\\\\Roaming\\\\{c:8}\\\\key.pem
"""  # noqa: E501
_SHAPES = shapes(RANDOM.replace("\\\\", "\\"))


def _fixed() -> list[tuple[str, str]]:
    found = []
    for line in FIXED.strip().splitlines():
        name, text = line.split("|", 1)
        found.append((name.replace(" ", ":", 1), text.replace("¶", "\n").replace("~", "")))
    return found


def _cursor(draw: Draw) -> str:
    body = {"id": draw.random.randrange(10**6), "dir": "next", "at": "2025-01-02"}
    return "next_page_token: " + base64.b64encode(json.dumps(body).encode()).decode()


def _jwks(draw: Draw) -> str:
    key = {"kty": "RSA", "kid": draw.uuid(), "use": "sig", "n": draw.of("w", 342), "e": "AQAB"}
    return json.dumps({"keys": [key]})


def _package(draw: Draw) -> str:
    return json.dumps(
        {
            "name": "shop",
            "version": "1.2.3",
            "dependencies": {"jsonwebtoken": f"^9.0.{draw.of('d', 1)}"},
        },
        indent=2,
    )


def _certificate(draw: Draw) -> str:
    body = "\n".join(draw.of("b", 64) for _ in range(6))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def _kubeconfig(draw: Draw) -> str:
    coded = base64.b64encode(_certificate(draw).encode()).decode()
    return f"clusters:\n- cluster:\n    certificate-authority-data: {coded}\n"


def _attachment(draw: Draw) -> str:
    text = f"{_certificate(draw)}Dear Bob, the key of the office is with the porter.\n" * 2
    coded = base64.b64encode(text.encode()).decode()
    lines = [coded[at : at + 76] for at in range(0, len(coded), 76)]
    return "Content-Transfer-Encoding: base64\n\n" + "\n".join(lines)


def categories() -> list[str]:
    """Every category's name, ``group:name``."""
    return [*(s.name.replace("-", ":", 1) for s in _SHAPES), *(n for n, _ in _fixed()), *_DRAWN]


_DRAWN = {
    "data:cursor": _cursor,
    "public:jwks": _jwks,
    "config:package": _package,
    "public:kubeconfig": _kubeconfig,
    "data:mime-text": _attachment,
}


def harmless(draw: Draw) -> list[tuple[str, str]]:
    """(category, text), one text of every category."""
    drawn = [
        (shape.name.replace("-", ":", 1), shape.draw(draw).text.replace("¶", "\n"))
        for shape in _SHAPES
    ]
    return [*drawn, *_fixed(), *((name, make(draw)) for name, make in _DRAWN.items())]
