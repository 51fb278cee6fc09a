"""Made-up secrets, drawn at run time from the documented shapes: prefix + alphabet + checksum.

Nothing that looks live is written down here. Each sample says what must vanish (``cores``: the
random parts without their public prefix) and what must stay (``keep``).
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
WORDISH = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER_DIGITS = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BASE64 = ALNUM + "+/"


@dataclasses.dataclass(frozen=True)
class Sample:
    text: str
    cores: tuple[str, ...]
    keep: tuple[str, ...] = ()
    severity: str = "credential"
    self_identifying: bool = True


class Maker:
    """Random parts of one seeded stream."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, size: int) -> str:
        body = "".join(self.random.choice(alphabet) for _ in range(size))
        if size >= 12 and not any(c.isdigit() for c in body) and any(c.isdigit() for c in alphabet):
            return self.of(alphabet, size)
        return body

    def an(self, size: int) -> str:
        return self.of(ALNUM, size)

    def w(self, size: int) -> str:
        return self.an(1) + self.of(WORDISH, size - 2) + self.an(1)

    def hex(self, size: int) -> str:
        return self.of(HEX, size)

    def digits(self, size: int) -> str:
        return self.random.choice("123456789") + self.of(string.digits, size - 1)

    def b64(self, size: int) -> str:
        return self.of(BASE64, size)

    def uuid(self) -> str:
        raw = self.hex(32)
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-a{raw[17:20]}-{raw[20:]}"

    def password(self) -> str:
        words = ("Autumn", "winter", "Kestrel", "quartz", "Lisboa", "harbor", "Velvet", "copper")
        return (
            self.random.choice(words)
            + self.random.choice("!#%-_.")
            + str(self.random.randrange(1000, 9999))
            + self.of(ALNUM, 3)
        )


def _crc32_base62(body: str) -> str:
    import zlib

    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    number = zlib.crc32(body.encode())
    out = ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        out = alphabet[rest] + out
    return out


def _github(make: Maker) -> Sample:
    body = make.an(30)
    return _prefixed("gh" + make.random.choice("pousr") + "_", body + _crc32_base62(body))


def _prefixed(prefix: str, body: str, **kwargs: object) -> Sample:
    return Sample(prefix + body, (body,), **kwargs)  # type: ignore[arg-type]


def jwt(make: Maker) -> Sample:
    def part(value: object) -> str:
        raw = json.dumps(value, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    payload = part({"sub": make.digits(10), "jti": make.an(12)})
    signature = make.w(43)
    return Sample(
        f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{payload}.{signature}", (payload[6:], signature)
    )


def _base58check(raw: bytes) -> str:
    raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
    number = int.from_bytes(raw, "big")
    out = ""
    while number:
        number, rest = divmod(number, 58)
        out = BASE58[rest] + out
    return out


def _wif(make: Maker) -> Sample:
    text = _base58check(b"\x80" + make.random.randbytes(32) + b"\x01")
    return Sample(text, (text,), severity="high_risk", self_identifying=False)


def _xprv(make: Maker) -> Sample:
    text = _base58check(bytes.fromhex("0488ade4") + make.random.randbytes(74))
    return Sample(text, (text[4:],), severity="high_risk")


def mnemonic(make: Maker, words: list[str], size: int = 12) -> Sample:
    entropy = make.random.randbytes(size * 4 // 3)
    check = size // 3
    number = int.from_bytes(entropy, "big") << check | (
        hashlib.sha256(entropy).digest()[0] >> (8 - check)
    )
    chosen = [words[number >> 11 * index & 2047] for index in range(size)][::-1]
    text = " ".join(chosen)
    return Sample(text, (text,), severity="high_risk", self_identifying=False)


def pem(make: Maker, kind: str = "RSA PRIVATE KEY", lines: int = 12) -> Sample:
    body = [make.b64(64) for _ in range(lines)] + [make.b64(38) + "=="]
    text = "\n".join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"])
    return Sample(text, tuple(body), severity="high_risk", self_identifying=False)


def aws_pair(make: Maker) -> Sample:
    key_id, secret = make.of(BASE32, 16), make.b64(40)
    return Sample(
        f"aws_access_key_id = AKIA{key_id}\naws_secret_access_key = {secret}",
        (key_id, secret),
        ("aws_access_key_id", "aws_secret_access_key"),
        "high_risk",
        False,
    )


Format = Callable[[Maker], Sample]

TOKENS: dict[str, Format] = {
    "github-token": _github,
    "github-fine-grained": lambda m: _prefixed("github_pat_", m.an(22) + "_" + m.an(59)),
    "npm-token": lambda m: _prefixed("npm_", m.an(36)),
    "gitlab-pat": lambda m: _prefixed("glpat-", m.w(20)),
    "gitlab-token": lambda m: _prefixed("gldt-", m.w(20)),
    "gitlab-trigger": lambda m: _prefixed("glptt-", m.hex(40)),
    "gitlab-runner-registration": lambda m: _prefixed("GR1348941", m.w(20)),
    "pypi-token": lambda m: _prefixed("pypi-AgEIcHlwaS5vcmc", m.w(150)),
    "rubygems-key": lambda m: _prefixed("rubygems_", m.hex(48)),
    "nuget-key": lambda m: _prefixed("oy2", m.of(string.ascii_lowercase + string.digits, 43)),
    "docker-hub-token": lambda m: _prefixed("dckr_pat_", m.w(27)),
    "aws-access-key-id": lambda m: _prefixed("AKIA", m.of(BASE32, 16)),
    "google-api-key": lambda m: _prefixed("AIza", m.w(35)),
    "google-oauth-token": lambda m: _prefixed("ya29.", m.w(120)),
    "google-refresh-token": lambda m: _prefixed("1//0", m.w(100)),
    "google-client-secret": lambda m: _prefixed("GOCSPX-", m.w(28)),
    "azure-ad-secret": lambda m: Sample((t := m.an(3) + "8Q~" + m.w(34)), (t[6:],)),
    "azure-storage-key": lambda m: Sample(
        f"AccountName=stacc;AccountKey={(k := m.b64(86))}==;EndpointSuffix=core.windows.net",
        (k,),
        ("AccountName=stacc", "EndpointSuffix=core.windows.net"),
    ),
    "digitalocean-token": lambda m: _prefixed("dop_v1_", m.hex(64)),
    "databricks-token": lambda m: _prefixed("dapi", m.hex(32)),
    "vault-token": lambda m: _prefixed("hvs.", m.w(95)),
    "terraform-cloud-token": lambda m: Sample(
        (a := m.an(14)) + ".atlasv1." + (b := m.w(65)), (a, b)
    ),
    "doppler-token": lambda m: _prefixed("dp.pt.", m.an(43)),
    "onepassword-service-token": lambda m: _prefixed("ops_eyJ", m.an(250)),
    "onepassword-secret-key": lambda m: _prefixed(
        "A3-",
        "-".join([m.of(UPPER_DIGITS, 6), m.of(UPPER_DIGITS, 6)] + [m.of(UPPER_DIGITS, 5)] * 4),
        severity="high_risk",
    ),
    "tailscale-key": lambda m: _prefixed("tskey-auth-", m.an(17) + "-" + m.an(32)),
    "fly-token": lambda m: _prefixed("fm2_", m.b64(120)),
    "supabase-access-token": lambda m: _prefixed("sbp_", m.hex(40)),
    "supabase-secret-key": lambda m: _prefixed("sb_secret_", m.w(22) + "_" + m.an(8)),
    "neon-key": lambda m: _prefixed("napi_", m.of(string.ascii_lowercase + string.digits, 64)),
    "planetscale-token": lambda m: _prefixed("pscale_tkn_", m.w(43)),
    "vercel-token": lambda m: _prefixed("vcp_", m.an(56)),
    "netlify-token": lambda m: _prefixed("nfp_", m.an(36)),
    "heroku-token": lambda m: _prefixed("HRKU-AA", m.w(58)),
    "pulumi-token": lambda m: _prefixed("pul-", m.hex(40)),
    "openai-key": lambda m: _prefixed("sk-proj-", m.w(74) + "T3Blbk" + "FJ" + m.w(74)),
    "openai-legacy-key": lambda m: _prefixed("sk-", m.an(20) + "T3Blbk" + "FJ" + m.an(20)),
    "anthropic-key": lambda m: _prefixed("sk-ant-api03-", m.w(93) + "AA"),
    "anthropic-oauth": lambda m: _prefixed("sk-ant-oat01-", m.w(80)),
    "openrouter-key": lambda m: _prefixed("sk-or-v1-", m.hex(64)),
    "groq-key": lambda m: _prefixed("gsk_", m.an(52)),
    "xai-key": lambda m: _prefixed("xai-", m.an(80)),
    "perplexity-key": lambda m: _prefixed("pplx-", m.an(48)),
    "replicate-token": lambda m: _prefixed("r8_", m.an(37)),
    "huggingface-token": lambda m: _prefixed("hf_", m.an(34)),
    "langsmith-key": lambda m: _prefixed("lsv2_pt_", m.hex(32) + "_" + m.hex(10)),
    "nvidia-key": lambda m: _prefixed("nvapi-", m.w(64)),
    "pinecone-key": lambda m: _prefixed("pcsk_", m.an(6) + "_" + m.an(63)),
    "memlocket-token": lambda m: _prefixed("mlk_", m.w(43)),
    "slack-bot-token": lambda m: _prefixed("xoxb-", f"{m.digits(12)}-{m.digits(12)}-{m.an(24)}"),
    "slack-app-token": lambda m: _prefixed(
        "xapp-1-A", f"{m.of(UPPER_DIGITS, 10)}-{m.digits(12)}-{m.hex(64)}"
    ),
    "slack-webhook": lambda m: Sample(
        "https://hooks.slack.com/services/T"
        + m.of(UPPER_DIGITS, 9)
        + "/B"
        + m.of(UPPER_DIGITS, 9)
        + "/"
        + (s := m.an(24)),
        (s,),
        ("https://hooks.slack.com/services/",),
    ),
    "stripe-key": lambda m: _prefixed("sk_live_", m.an(24)),
    "stripe-webhook-secret": lambda m: _prefixed("whsec_", m.an(32)),
    "sendgrid-key": lambda m: _prefixed("SG.", m.w(22) + "." + m.w(43)),
    "mailgun-key": lambda m: _prefixed("key-", m.hex(32)),
    "mailchimp-key": lambda m: Sample((h := m.hex(32)) + "-us12", (h,)),
    "brevo-key": lambda m: _prefixed("xkeysib-", m.hex(64) + "-" + m.an(16)),
    "twilio-key": lambda m: _prefixed("SK", m.hex(32)),
    "telegram-bot-token": lambda m: Sample(m.digits(10) + ":AA" + (s := m.w(33)), (s,)),
    "discord-bot-token": lambda m: Sample(
        base64.b64encode(m.digits(18).encode()).decode() + "." + m.an(6) + "." + (s := m.w(38)),
        (s,),
    ),
    "discord-webhook": lambda m: Sample(
        f"https://discord.com/api/webhooks/{m.digits(18)}/{(s := m.w(68))}",
        (s,),
        ("https://discord.com/api/webhooks/",),
    ),
    "shopify-token": lambda m: _prefixed("shpat_", m.hex(32)),
    "linear-key": lambda m: _prefixed("lin_api_", m.an(40)),
    "figma-token": lambda m: _prefixed("figd_", m.w(40)),
    "postman-key": lambda m: _prefixed("PMAK-", m.hex(24) + "-" + m.hex(34)),
    "notion-token": lambda m: _prefixed("ntn_", m.digits(11) + m.an(35)),
    "asana-token": lambda m: Sample(f"2/{m.digits(16)}/{m.digits(16)}:{(s := m.hex(32))}", (s,)),
    "airtable-token": lambda m: _prefixed("pat", m.an(14) + "." + m.hex(64)),
    "atlassian-token": lambda m: _prefixed("ATATT3xFfGF0", m.w(170) + "=" + m.hex(8).upper()),
    "grafana-service-token": lambda m: _prefixed("glsa_", m.an(32) + "_" + m.hex(8)),
    "new-relic-key": lambda m: _prefixed("NRAK-", m.of(UPPER_DIGITS, 27)),
    "sentry-user-token": lambda m: _prefixed("sntryu_", m.hex(64)),
    "jwt": jwt,
    "paseto": lambda m: _prefixed("v4.local.", m.w(120)),
    "age-key": lambda m: _prefixed(
        "AGE-SECRET-KEY-1", m.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), severity="high_risk"
    ),
    "bip32-xprv": _xprv,
    "wif": _wif,
    "otpauth": lambda m: Sample(
        f"otpauth://totp/Acme:me?secret={(s := m.of(BASE32, 32))}&issuer=Acme",
        (s,),
        ("otpauth://totp/Acme:me?secret=", "issuer=Acme"),
    ),
    "url-userinfo": lambda m: Sample(
        f"postgres://app:{(s := m.an(16))}@db.internal:5432/main",
        (s,),
        ("postgres://app:", "@db.internal:5432/main"),
    ),
    "url-query": lambda m: Sample(
        f"https://api.acme.io/v1/items?access_token={(s := m.an(32))}&page=2",
        (s,),
        ("https://api.acme.io/v1/items?access_token=", "&page=2"),
    ),
    "presigned-url": lambda m: Sample(
        "https://b.s3.amazonaws.com/k?X-Amz-Date=20250101T000000Z&X-Amz-Signature="
        + (s := m.hex(64)),
        (s,),
        ("X-Amz-Date=20250101T000000Z",),
    ),
    "sas-url": lambda m: Sample(
        f"https://acc.blob.core.windows.net/c?sv=2023-01-03&sig={(s := m.an(43))}%3D&se=2025",
        (s,),
        ("sv=2023-01-03", "&se=2025"),
    ),
}

LABELLED: dict[str, Callable[[Maker], Sample]] = {
    "env": lambda m: Sample(f"DB_PASSWORD={(s := m.password())}", (s,), ("DB_PASSWORD=",)),
    "export": lambda m: Sample(f'export API_KEY="{(s := m.an(32))}"', (s,), ("export API_KEY=",)),
    "json": lambda m: Sample(
        f'{{"client_secret": "{(s := m.w(28))}"}}', (s,), ('"client_secret"',)
    ),
    "json-escaped": lambda m: Sample(
        f'"{{\\"password\\":\\"{(s := m.password())}\\"}}"', (s,), ("password",)
    ),
    "yaml": lambda m: Sample(f"db:\n  password: {(s := m.password())}\n", (s,), ("password:",)),
    "pt": lambda m: Sample(f"a senha é {(s := m.password())}, guarda", (s,), ("a senha é",)),
    "es": lambda m: Sample(f"contraseña: {(s := m.password())}", (s,), ("contraseña:",)),
    "fr": lambda m: Sample(f"mot de passe : {(s := m.password())}", (s,), ("mot de passe :",)),
    "de": lambda m: Sample(f"Das Passwort lautet {(s := m.password())}.", (s,), ("Das Passwort",)),
    "pl": lambda m: Sample(f"hasło: {(s := m.password())}", (s,)),
    "ru": lambda m: Sample(f"пароль: {(s := m.password())}", (s,)),
    "zh": lambda m: Sample(f"密码：{(s := m.password())}，不要外传", (s,), ("密码", "不要外传")),
    "ja": lambda m: Sample(f"パスワードは {(s := m.password())} です", (s,), ("です",)),
    "ko": lambda m: Sample(f"비밀번호: {(s := m.password())}", (s,)),
    "tr": lambda m: Sample(f"şifre: {(s := m.password())}", (s,)),
    "nl": lambda m: Sample(f"wachtwoord = {(s := m.password())}", (s,)),
    "ar": lambda m: Sample(f"كلمة المرور: {(s := m.password())}", (s,)),
    "prose": lambda m: Sample(
        f"The password is {(s := m.password())} for now.", (s,), ("for now",)
    ),
    "backticks": lambda m: Sample(
        f"set SECRET_KEY to `{(s := m.an(24))}` in env", (s,), ("in env",)
    ),
    "flag": lambda m: Sample(f"tool --api-key {(s := m.an(24))} --verbose", (s,), ("--verbose",)),
    "curl": lambda m: Sample(
        f"curl -u admin:{(s := m.password())} https://x.io", (s,), ("admin:",)
    ),
    "bearer": lambda m: Sample(
        f"curl -H 'Authorization: Bearer {(s := m.an(40))}' https://x.io", (s,), ("Bearer ",)
    ),
    "basic": lambda m: Sample(
        "Authorization: Basic "
        + (s := base64.b64encode(f"user:{m.password()}".encode()).decode().rstrip("=")),
        (s,),
        ("Basic ",),
    ),
    "cookie": lambda m: Sample(f"Cookie: sessionid={(s := m.an(32))}; lang=en", (s,), ("lang=en",)),
    "netrc": lambda m: Sample(
        f"machine api.acme.io login bob password {(s := m.password())}", (s,), ("login bob",)
    ),
    "pgpass": lambda m: Sample(
        f"db.acme.io:5432:main:bob:{(s := m.password())}", (s,), ("db.acme.io:5432:main:bob:",)
    ),
    "npmrc": lambda m: Sample(
        f"//registry.npmjs.org/:_authToken={(s := m.uuid())}", (s,), ("//registry.npmjs.org/",)
    ),
    "jdbc": lambda m: Sample(
        f"jdbc:sqlserver://h;user=sa;password={(s := m.password())};encrypt=true",
        (s,),
        ("user=sa", "encrypt=true"),
    ),
    "xml": lambda m: Sample(f"<password>{(s := m.password())}</password>", (s,), ("</password>",)),
    "xml-attribute": lambda m: Sample(
        f'<add key="ApiKey" value="{(s := m.an(32))}" />', (s,), ('key="ApiKey"',)
    ),
    "k8s-pair": lambda m: Sample(
        f"- name: DB_PASSWORD\n  value: {(s := m.password())}\n", (s,), ("DB_PASSWORD",)
    ),
    "python": lambda m: Sample(f"client_secret = '{(s := m.w(32))}'", (s,), ("client_secret",)),
    "mysql": lambda m: Sample(f"mysql -u root -p{(s := m.an(12))} shop", (s,), ("shop",)),
    "table": lambda m: Sample(f"| api key | {(s := m.an(32))} |", (s,), ("| api key |",)),
}

CONTEXTS: dict[str, str] = {
    "bare": "{}",
    "prose": "Please use {} for the deploy.",
    "prose-pt": "Usa {} no servidor, por favor.",
    "chinese": "请用{}登录",
    "parentheses": "(see {})",
    "comma": "keys: {}, and more",
    "full-stop": "The one in use is {}.",
    "literal-newline": "first\\n{}\\nlast",
    "quoted": 'x("{}")',
    "backticks": "run `{}` now",
    "log": "2025-01-02T03:04:05Z INFO got {} from peer",
    "glued-underscore": "prod_{}",
    "export": "export VALUE={}",
    "json": '{{"note": "{}"}}',
}


def disguises(sample: Sample, make: Maker) -> dict[str, tuple[str, tuple[str, ...]]]:
    """name -> (text, forms that must be gone) of a one-token sample."""
    token = sample.text
    raw = token.encode()
    half = len(token) // 2
    encoded = base64.b64encode(raw).decode()
    url = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    double = base64.b64encode(encoded.encode()).decode()
    percent = "".join(f"%{byte:02X}" for byte in raw)
    unicode_escapes = "".join(f"\\u{byte:04x}" for byte in raw)
    entities = "".join(f"&#{byte};" for byte in raw)
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in token)
    zero = "\u200b".join(token)
    return {
        "base64": (f"blob {encoded} end", (encoded[8:-8],)),
        "base64url": (f"blob {url} end", (url[8:-8],)),
        "base64-twice": (f"blob {double} end", (double[8:-8],)),
        "hex": (f"dump {raw.hex()} end", (raw.hex()[8:-8],)),
        "percent": (f"q={percent}", (percent[12:],)),
        "unicode": (f'"{unicode_escapes}"', (unicode_escapes[12:],)),
        "entities": (f"<p>{entities}</p>", (entities[12:],)),
        "zero-width": (f"use {zero} now", (zero[8:],)),
        "soft-hyphen": (f"use {token[:half]}\u00ad{token[half:]} now", (token[half:],)),
        "full-width": (f"use {wide} now", (wide[6:],)),
        "wrap": (f"{token[:half]}\n{token[half:]}", (token[half:],)),
        "wrap-indented": (f"{token[:half]}\n    {token[half:]}", (token[half:],)),
        "wrap-backslash": (f"{token[:half]}\\\n{token[half:]}", (token[half:],)),
        "wrap-quote": (f"> {token[:half]}\n> {token[half:]}", (token[half:],)),
        "concatenated": (f'"{token[:half]}" + "{token[half:]}"', (token[half:],)),
        "ansi": (f"\x1b[31m{token[:half]}\x1b[0m{token[half:]}", (token[half:],)),
        "nul": (f"{token[:half]}\x00{token[half:]}", (token[half:],)),
        "spaced": (f"it is {' '.join(token)} ok", (" ".join(token)[16:],)),
        "json-twice": (json.dumps(json.dumps({"a": token})), (token[half:],)),
        "markdown": ("use " + token.replace("_", "\\_"), (token[half:].replace("_", "\\_"),)),
        "cjk": (f"密{token}钥", (token[half:],)),
    }


def leaked(core: str, output: str) -> bool:
    """Whether a usable part of the core is still there: a common substring of a quarter of it."""
    size = max(6, -(-len(core) // 4)) if len(core) >= 10 else max(4, len(core) - 3)
    return any(core[index : index + size] in output for index in range(len(core) - size + 1))
