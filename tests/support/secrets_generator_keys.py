"""Key material and structured tokens (redaction.md 13.5); some keys are really generated."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable

from mnemonic import Mnemonic
from secrets_generator_draw import ALPHABETS, Draw, Shape, Value, shapes

PEM_KINDS = (
    "PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "DSA PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "PGP PRIVATE KEY BLOCK",
)
HIGH_RISK_LINES = """
aws session: <IQoJb3JpZ2luX2Vj/FwoGZXIvYXdz>{b:240..500}
aws pair-ini: «aws_access_key_id» = AKIA‹{3:16}›;«aws_secret_access_key» = ‹{b:40}›
aws secret-env: «AWS_SECRET_ACCESS_KEY=»{b:40}
aws secret-json: {"«SecretAccessKey»": "‹{b:40}›"}
aws secret-configure: «aws configure set aws_secret_access_key» {b:40}
aws near-id: use AKIA‹{3:16}› together with ‹{b:40}› «on staging»
aws secret-prose: «the AWS secret key is» {b:40}
onepassword secret-key: A3-|‹{u:6}-{u:6}-{u:5}-{u:5}-{u:5}-{u:5}›
age key: AGE-SECRET-KEY-1|{z:58}
ethereum key-env: «PRIVATE_KEY=»0x{h:64}
ethereum key-json: {"«privateKey»": "0x‹{h:64}›"}
ethereum key-prose: «deployer private key» 0x{h:64}
ethereum key-yaml: «eth_private_key:» "0x‹{h:64}›"
wireguard private: [Interface];«PrivateKey =» ‹{b:43}›=;«Address = 10.0.0.2/32»
wireguard preshared: [Peer];«PresharedKey =» ‹{b:43}›=;«AllowedIPs = 0.0.0.0/0»
"""


def _lines(value: Value) -> Value:
    return Value(value.text.replace(";", "\n"), value.secrets, value.keep)


def _line_shapes() -> list[Shape]:
    def drawer(shape: Shape) -> Callable[[Draw], Value]:
        return lambda draw: _lines(shape.draw(draw))

    return [
        Shape(shape.family, shape.name, drawer(shape), "high_risk")
        for shape in shapes(HIGH_RISK_LINES, "high_risk")
    ]


def _armour(kind: str, body: list[str]) -> list[str]:
    return ["-----BEGIN " + kind + "-----", *body, "-----END " + kind + "-----"]


def pem(draw: Draw, style: str) -> Value:
    """A key of a random kind with a random body, laid out as ``style`` says."""
    kind = draw.pick(PEM_KINDS)
    if style == "ssh2":
        body = [draw.of("b", 70) for _ in range(6)]
        lines = ["---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", 'Comment: "work"', *body]
        return Value("\n".join([*lines, "---- END SSH2 ENCRYPTED PRIVATE KEY ----"]), tuple(body))
    body = [draw.of("b", 64) for _ in range(draw.random.randrange(5, 24))]
    body.append(draw.of("b", 38) + "==")
    lines = _armour(kind, body)
    if style == "proc-type":
        head = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC," + draw.of("H", 32), ""]
        lines[1:1] = head
    text = {
        "indent": "  key: |\n    " + "\n    ".join(lines),
        "escaped": "\\n".join(lines),
        "escaped-twice": "\\\\n".join(lines),
        "json": json.dumps({"private_key": "\n".join(lines), "type": "service_account"}),
        "one-line": " ".join(lines),
        "glued": lines[0] + "".join(body) + lines[-1],
        "truncated": "\n".join(lines[:-1]),
        "truncated-escaped": "\\n".join(lines[:-1]),
        "cut-footer": "\n".join(lines)[:-14],
        "crlf": "\r\n".join(lines),
        "quote": "> " + "\n> ".join(lines),
        "comment": "# " + "\n# ".join(lines),
        "concatenated": '"' + '\\n" +\n"'.join(lines) + '"',
        "diff": "+" + "\n+".join(lines),
        "log": "\n".join(f"2025-03-0{n % 9 + 1} INFO {line}" for n, line in enumerate(lines)),
        "blank-lines": "\n\n".join(lines),
    }.get(style, "\n".join(lines))
    return Value(text, tuple(body))


PEM_STYLES = (
    "plain", "proc-type", "ssh2", "indent", "escaped", "escaped-twice", "json", "one-line", "glued",
    "truncated", "truncated-escaped", "cut-footer", "crlf", "quote", "comment", "concatenated",
    "diff", "log", "blank-lines",
)  # fmt: skip


@functools.cache
def generated_keys() -> tuple[str, ...]:
    """Throw-away keys of real structure; new in each process, whatever the seed."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    keys = (
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.generate(),
    )
    plain, locked = form.NoEncryption(), form.BestAvailableEncryption(b"throw-away")
    found = []
    for key in keys:
        for layout, lock in (
            (form.PrivateFormat.PKCS8, plain),
            (form.PrivateFormat.PKCS8, locked),
            (form.PrivateFormat.OpenSSH, plain),
        ):
            found.append(key.private_bytes(form.Encoding.PEM, layout, lock).decode())
    found.append(
        keys[0]
        .private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, plain)
        .decode()
    )
    return tuple(found)


def _generated(draw: Draw) -> Value:
    text = draw.pick(generated_keys()).rstrip()
    body = tuple(line for line in text.splitlines() if len(line) >= 8 and "-----" not in line)
    return Value(text, body)


def _ppk(draw: Draw) -> Value:
    secret = [draw.of("b", 64), draw.of("b", 40)]
    mac = "\nPrivate-MAC: " + draw.of("h", 64) if draw.random.random() < 0.6 else ""
    version = draw.pick("23")
    text = (
        f"PuTTY-User-Key-File-{version}: ssh-ed25519\nEncryption: none\nComment: work\n"
        f"Public-Lines: 2\n{draw.of('b', 64)}\n{draw.of('b', 20)}==\n"
        f"Private-Lines: 2\n{secret[0]}\n{secret[1]}{mac}"
    )
    return Value(text, tuple(secret))


def _jwk(draw: Draw) -> Value:
    if draw.random.random() < 0.3:
        value = draw.of("w", 43)
        return Value(json.dumps({"kty": "oct", "k": value, "alg": "HS256"}), (value,))
    if draw.random.random() < 0.5:
        value = draw.of("w", 43)
        key = {"kty": "EC", "crv": "P-256", "x": draw.of("w", 43), "y": draw.of("w", 43)}
        return Value(json.dumps({**key, "d": value}), (value,))
    parts = {name: draw.of("w", 171) for name in ("p", "q", "dp", "dq", "qi")}
    parts["d"] = draw.of("w", 342)
    key = {"kty": "RSA", "n": draw.of("w", 342), "e": "AQAB", **parts}
    return Value(json.dumps(key, indent=draw.pick((None, 2))), tuple(parts.values()))


def _base58check(raw: bytes) -> str:
    raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
    number, out = int.from_bytes(raw, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        out = ALPHABETS["5"][rest] + out
    return out


def _xprv(draw: Draw) -> Value:
    version = draw.pick(("0488ade4", "049d7878", "04b2430c", "04358394"))
    text = _base58check(bytes.fromhex(version) + draw.random.randbytes(74))
    return Value(text, (text[4:],))


def _wif(draw: Draw) -> Value:
    tail = draw.pick((b"", b"\x01"))
    text = _base58check(b"\x80" + draw.random.randbytes(32) + tail)
    return Value(text, (text,))


@functools.cache
def bip39_words() -> tuple[str, ...]:
    return tuple(Mnemonic("english").wordlist)


def mnemonic(draw: Draw, style: str) -> Value:
    """Seed words with a valid checksum, by themselves or under a label."""
    size = draw.pick((12, 15, 18, 21, 24))
    entropy = draw.random.randbytes(size * 4 // 3)
    text = Mnemonic("english").to_mnemonic(entropy)
    shown = {
        "numbered": "\n".join(f"{n}. {word}" for n, word in enumerate(text.split(), 1)),
        "commas": text.replace(" ", ", "),
        "lines": text.replace(" ", "\n"),
        "upper": text.upper(),
    }.get(style, text)
    if style == "labelled":
        return Value(f"seed phrase: {shown}", (shown,), ("seed phrase",))
    if style == "numbered":
        pairs = shown.split("\n")
        thirds = ["\n".join(pairs[at : at + 4]) for at in range(0, len(pairs) - 3, 4)]
        return Value("recovery phrase\n" + shown, tuple(thirds), ("recovery phrase",))
    return Value(shown, (shown,))


def _b64(value: object) -> str:
    raw = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _jwt(draw: Draw) -> Value:
    header = draw.pick(
        ({"alg": "HS256", "typ": "JWT"}, {"typ": "JWT", "alg": "RS256", "kid": "a1"})
    )
    claims = _b64({"sub": draw.of("d", 10), "jti": draw.of("a", 12), "iat": 1735787045})
    if draw.random.random() < 0.2:
        return Value(f"{_b64({'alg': 'none'})}.{claims}.", (claims[8:],))
    signature = draw.of("w", draw.pick((43, 86, 342)))
    return Value(f"{_b64(header)}.{claims}.{signature}", (claims[8:], signature))


def _jwe(draw: Draw) -> Value:
    header = _b64({"alg": "dir", "enc": "A256GCM"})
    body = draw.of("w", 90)
    middle = draw.pick(("", draw.of("w", 54)))
    return Value(f"{header}.{middle}.{draw.of('w', 16)}.{body}.{draw.of('w', 22)}", (body,))


def key_shapes() -> list[Shape]:
    """High-risk material, then tokens that have a structure of their own."""

    def styled(drawer: Callable[[Draw, str], Value], style: str) -> Callable[[Draw], Value]:
        return lambda draw: drawer(draw, style)

    high = [
        *(Shape("private-key", f"pem-{s}", styled(pem, s), "high_risk") for s in PEM_STYLES),
        Shape("private-key", "generated", _generated, "high_risk"),
        Shape("putty", "putty-key", _ppk, "high_risk"),
        Shape("jwk", "jwk-private", _jwk, "high_risk"),
        *(
            Shape("bip39", f"bip39-{s}", styled(mnemonic, s), "high_risk")
            for s in ("plain", "labelled", "numbered", "commas", "lines", "upper")
        ),
        Shape("bip32", "bip32-xprv", _xprv, "high_risk"),
        Shape("wif", "wif-key", _wif, "high_risk"),
        *_line_shapes(),
    ]
    return [
        *high,
        Shape("jwt", "jwt-signed", _jwt),
        Shape("jwe", "jwe-five-parts", _jwe),
        *shapes("paseto token: v<1/2/3/4>.<local/public>.{w:90..150}"),
    ]
