"""A grid of labels, separators, quotes and values: secrets in one half, harmless in the other.

Both halves share labels and surroundings, so that only the value (or a label that means something
else, redaction.md 4.3) decides.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from secrets_generator_draw import WORDS, Draw, Sample

NOUNS = (
    ("password",), ("passwd",), ("pwd",), ("passphrase",), ("secret",), ("token",), ("api", "key"),
    ("access", "key"), ("secret", "key"), ("client", "secret"), ("auth", "token"),
    ("access", "token"), ("refresh", "token"), ("private", "token"), ("api", "secret"),
    ("api", "token"), ("signing", "secret"), ("master", "password"), ("root", "password"),
)  # fmt: skip
PREFIXES = (
    "",
    "",
    "db",
    "app",
    "my app",
    "smtp",
    "acme",
    "prod",
    "zorblax",
    "ci",
    "github",
    "redis",
)
SEPARATORS = ("=", " = ", ": ", ":", " := ", " => ", "=", ": ")
QUOTES = (("", ""), ("", ""), ("'", "'"), ('"', '"'), ("`", "`"), ('\\"', '\\"'), ("“", "”"))
AFTER = ("", "\n", " # rotate", ", ", ";", "\nport: 80", " ", " // old", ")", "\\n")
BEFORE = ("", "\n", "  ", "- ", "const ", "let ", "export ", "see: ", "> ", "\\n", "{", "`")


def _styled(words: tuple[str, ...], draw: Draw) -> str:
    style = draw.random.randrange(6)
    if style == 0:
        return "_".join(words).upper()
    if style == 1:
        return words[0] + "".join(word.capitalize() for word in words[1:])
    if style == 2:
        return "".join(word.capitalize() for word in words)
    if style == 3:
        return "-".join(words)
    if style == 4:
        return " ".join(words)
    return "_".join(words)


def _label(draw: Draw) -> str:
    prefix = tuple(draw.pick(PREFIXES).split())
    return _styled((*prefix, *draw.pick(NOUNS)), draw)


SECRETS: dict[str, Callable[[Draw], str]] = {
    "password": Draw.password,
    "alnum-24": lambda d: d.of("a", 24),
    "alnum-40": lambda d: d.of("a", 40),
    "wordish-32": lambda d: d.of("w", 32).replace("--", "-a"),
    "hex-32": lambda d: d.of("h", 32),
    "hex-64": lambda d: d.of("h", 64),
    "base64-44": lambda d: base64.b64encode(d.random.randbytes(32)).decode(),
    "letters-28": lambda d: d.of("L", 28),
    "short": lambda d: d.pick(WORDS)[:4] + d.of("d", 2) + d.pick("!#%") + d.of("a", 4),
    "upper-26": lambda d: d.of("u", 26),
    "groups": lambda d: "-".join(d.of("l", 5) + d.of("d", 1) for _ in range(4)),
    "halves": lambda d: f"{d.of('l', 12)}_{d.of('l', 12)}",
    "dotted": lambda d: ".".join(d.of("a", 12) for _ in range(3)),
}


def secret_grid(draw: Draw, rounds: int) -> Iterator[Sample]:
    """``rounds`` labelled secrets of each kind of value."""
    for kind, value in SECRETS.items():
        for _ in range(rounds):
            label, secret = _label(draw), value(draw)
            opened, closed = draw.pick(QUOTES)
            separator, after = draw.pick(SEPARATORS), draw.pick(AFTER)
            if not closed and after in (";", ")", "\\n") and not secret[-1].isalnum():
                after = "\n"
            text = f"{draw.pick(BEFORE)}{label}{separator}{opened}{secret}{closed}{after}"
            yield Sample(text, (secret,), (label,), "credential", f"grid:{kind}", "grid")


# values that need no quotes, and mean that the secret is elsewhere, absent, or not meant
NOT_SECRET_BARE = (
    "null", "None", "nil", "undefined", "true", "false", "${DB_PASSWORD}", "$TOKEN", "$(pass x)",
    "{{ vault.token }}", "%SECRET%", 'os.environ["TOKEN"]', "os.getenv('TOKEN')", "process.env.X",
    "config.get('auth.token')", "settings.API_KEY", "self.token", "request.headers['X-Token']",
    "get_token()", "await fetchToken()", "generateSecret(32)", "string", "str", "String", "bytes",
    "Optional[str]", "string | null", "SecretStr", "var.db_password", "data.vault.token",
    "required", "optional", "invalid", "expired", "hidden", "encrypted", "!vault db/prod",
    "input.value", "user.password", "this.state.password", "args.token", "secrets.token_hex(16)",
    "crypto.randomBytes(32)", "uuid.uuid4()", "Secret::new()", "env::var(\"TOKEN\")?",
)  # fmt: skip
NOT_SECRET = (
    "", "changeme", "your-token-here", "YOUR_API_KEY", "<token>", "<your password>", "xxxxxxxxxxxx",
    "********", "...", "TODO", "REPLACE_ME", "example", "/run/secrets/token", "./keys/server.pem",
    "https://acme.io/oauth/token", "op://vault/item/field", "v1.2.3", "2025-01-02", "[REDACTED]",
    "<redacted>", "***REDACTED***", "[REDACTED:labelled-secret]", "${TOKEN}", "{{ token }}",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbC123", "placeholder", "insert-here",
    "~/.config/acme/token", "C:\\\\keys\\\\token.txt", "none", "n/a", "not set", "test",
)  # fmt: skip
OTHER_LABELS = (
    "primary_key", "foreign_key", "sort_key", "cache_key", "public_key", "idempotency_key",
    "partition_key", "token_url", "token_type", "token_count", "token_budget", "secret_name",
    "secret_ref", "password_hash", "password_policy", "password_field", "password_hint",
    "auth_method", "author", "content_hash", "sha256", "digest", "commit", "fingerprint",
    "trace_id", "tracestate", "cacheKey", "publicKey", "sortKey", "idempotencyKey", "tokenType",
    "passwordHash", "commit_sha", "etag", "checksum", "build_id", "request_id", "session_name",
)  # fmt: skip
OTHER_VALUES: tuple[Callable[[Draw], str], ...] = (
    lambda d: d.of("h", 40),
    lambda d: d.of("h", 64),
    lambda d: f"{d.pick(WORDS)}_{d.pick(WORDS)}_{d.of('d', 2)}",
    lambda d: f"{d.pick(WORDS)}-{d.of('d', 4)}",
    lambda d: d.uuid(),
    lambda d: f"user:{d.of('d', 6)}:{d.pick(WORDS)}",
    lambda d: f"{d.pick(WORDS).capitalize()}{d.of('d', 4)}",
)


def harmless_grid(draw: Draw, rounds: int) -> Iterator[tuple[str, str]]:
    """(category, text): strong labels with harmless values, other labels with random ones."""
    for _ in range(rounds):
        for value in (*NOT_SECRET_BARE, *NOT_SECRET):
            opened, closed = draw.pick(QUOTES[2:4]) if value in NOT_SECRET else ("", "")
            separator = draw.pick(("=", " = ", ": "))
            after = draw.pick(("", "\n", ",\n", ";\n"))
            text = f"{_label(draw)}{separator}{opened}{value}{closed}{after}"
            yield "grid:not-a-secret", text
        for label in OTHER_LABELS:
            opened, closed = draw.pick((("", ""), ("'", "'"), ('"', '"')))
            value = draw.pick(OTHER_VALUES)(draw)
            yield (
                "grid:other-label",
                f"{label}{draw.pick((': ', ' = ', '='))}{opened}{value}{closed}",
            )
