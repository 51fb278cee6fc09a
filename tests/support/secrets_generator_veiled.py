"""Key material in other layouts and encodings: what capture skips (redaction.md C12, 6)."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable, Iterator

from secrets_generator_draw import Draw, Sample
from secrets_generator_keys import key_shapes

Coder = Callable[[str], str]
# the other PEM layouts are layouts already
SHAPES = ("pem-plain", "pem-proc-type", "pem-truncated", "pem-ssh2")


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _mime(text: str) -> str:
    coded = _b64(text)
    return "\n".join(coded[at : at + 76] for at in range(0, len(coded), 76))


# a coding of the whole text: all of it must go
WHOLE: dict[str, tuple[Coder, str]] = {
    "base64": (_b64, "blob {} end"),
    "base64-mime": (_mime, "blob\n{}\nend"),
    "base64-data": (_b64, "kind: Secret\ndata:\n  value: {}\n"),
    "base64-twice": (lambda text: _b64(_b64(text)), "{}"),
    "base64url": (lambda t: base64.urlsafe_b64encode(t.encode()).decode().rstrip("="), "{}"),
    "hex": (lambda text: text.encode().hex(), "dump {}"),
}
# a coding of each character, or none: the secrets in that coding must go
EACH: dict[str, tuple[Coder, Coder]] = {
    "percent": (lambda t: "k=" + urllib.parse.quote(t, ""), lambda t: urllib.parse.quote(t, "")),
    "percent-plus": (lambda t: "k=" + urllib.parse.quote_plus(t), urllib.parse.quote_plus),
    "html-numbers": (lambda t: "".join(f"&#{ord(c)};" for c in t),) * 2,
    "unicode": (lambda t: "".join(f"\\u{ord(c):04x}" for c in t),) * 2,
    "json": (lambda t: json.dumps({"data": t}), str),
    "json-twice": (lambda t: json.dumps(json.dumps({"data": t})), str),
    "json-thrice": (lambda t: json.dumps(json.dumps(json.dumps({"data": t}))), str),
    "html": (lambda t: "<pre>" + html.escape(t) + "</pre>", str),
    "html-break": (lambda t: "<p>" + t.replace("\n", "<br>\n") + "</p>", str),
    "crlf": (lambda t: t.replace("\n", "\r\n"), str),
    "tabs": (lambda t: "\t" + t.replace("\n", "\n\t"), str),
    "bullets": (lambda t: "- " + t.replace("\n", "\n- "), str),
    "grep": (
        lambda t: "\n".join(f"keys/a:{n}:{line}" for n, line in enumerate(t.split("\n"), 1)), str
    ),
    "diff": (lambda t: "@@ -1,2 +1,3 @@\n-" + t.replace("\n", "\n-"), str),
    "pipes": (lambda t: "    | " + t.replace("\n", "\n    | "), str),
    "slashes": (lambda t: "// " + t.replace("\n", "\n// "), str),
    "stars": (lambda t: "/*\n * " + t.replace("\n", "\n * ") + "\n */", str),
    "strings": (lambda t: "(" + "\n".join(f'    "{line}\\n"' for line in t.split("\n")) + ")", str),
    "array": (lambda t: "[" + ", ".join(f'"{line}"' for line in t.split("\n")) + "]", str),
    "heredoc": (lambda t: "cat > k <<EOF\n" + t + "\nEOF\n", str),
    "echo": (lambda t: "echo '" + t + "' > k", str),
    "trailing": (lambda t: "  \n".join(t.split("\n")), str),
    "ansi": (lambda t: "\x1b[32m" + t.replace("\n", "\x1b[0m\n\x1b[32m") + "\x1b[0m", str),
}  # fmt: skip


def veiled_samples(draw: Draw, rounds: int) -> Iterator[Sample]:
    """``rounds`` keys of each kind in each layout; the family is the layout."""
    for shape in key_shapes():
        if shape.severity != "high_risk" or shape.family in ("bip39", "bip32", "wif"):
            continue
        if shape.name.startswith("pem-") and shape.name not in SHAPES:
            continue
        for _ in range(rounds):
            for name, (code, frame) in WHOLE.items():
                coded = code(shape.draw(draw).text)
                lines = tuple(line for line in coded.split("\n") if len(line) >= 12)
                yield Sample(
                    frame.format(coded), lines, (), "high_risk", f"veiled:{name}", shape.name
                )
            for name, (code, form) in EACH.items():
                value = shape.draw(draw)
                forms = tuple(form(secret) for secret in value.secrets)
                yield Sample(code(value.text), forms, (), "high_risk", f"veiled:{name}", shape.name)
