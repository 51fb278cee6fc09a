"""Where a secret is found: surroundings, and mutations of a finished text (redaction.md 15.1)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from secrets_generator_draw import Draw, Value

Wrap = Callable[[str, str, Draw], tuple[str, tuple[str, ...]]]


def _framed(before: str, after: str, *keep: str) -> Wrap:
    return lambda text, _label, _draw: (before + text + after, keep)


def _labelled(before: str, after: str, *keep: str) -> Wrap:
    """``%`` stands for the label's upper-case name."""
    return lambda text, label, _draw: (
        before.replace("%", label) + text + after,
        tuple(part.replace("%", label) for part in keep),
    )


def _json(text: str, label: str, draw: Draw) -> tuple[str, tuple[str, ...]]:
    indent = draw.pick((None, 2))
    body = {"host": "acme.io", label.lower(): text, "retries": 3}
    return json.dumps(body, indent=indent, ensure_ascii=False), (label.lower(), "acme.io")


def _json_array(text: str, _label: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
    return json.dumps(["deploy", text, "later"]), ("deploy", "later")


def _json_twice(text: str, label: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
    inner = json.dumps({label.lower(): text, "on": True})
    return json.dumps({"body": inner, "n": 1}), (label.lower(), '"n": 1')


# ``%`` is replaced by a label such as DEPLOY_TOKEN; the texts kept are words around the value
CONTEXTS: dict[str, Wrap] = {
    "bare": _framed("", ""),
    "prose-en": _framed("Yesterday we used ", " for the shop", "Yesterday we used", "for the shop"),
    "prose-pt": _framed("Ontem usámos ", " na publicação", "Ontem usámos", "na publicação"),
    "prose-zh": _framed("昨天我们用", "部署了商店", "昨天我们用", "部署了商店"),
    "cjk-stop": _framed("部署：", "。完成", "部署：", "完成"),
    "env": _labelled("PORT=8080\n%=", "\nDEBUG=1", "PORT=8080", "%=", "DEBUG=1"),
    "export": _labelled('export %="', '"', "export %="),
    "ini": _labelled("[main]\n% = ", "\nhost = acme.io", "[main]", "% =", "host = acme.io"),
    "json": _json,
    "json-array": _json_array,
    "json-escaped": _json_twice,
    "yaml": _labelled("app:\n  %: ", "\n  port: 80\n", "%:", "port: 80"),
    "yaml-list": _framed("items:\n  - ", "\n  - other\n", "items:", "- other"),
    "python": _labelled("% = '", "'\nclient = connect(host)", "% =", "client = connect(host)"),
    "js": _labelled("const % = `", "`;\nrun();", "const % =", "run();"),
    "call": _framed('client.login("', '", retries=3)', "client.login(", "retries=3"),
    "log": _framed("2025-03-01T10:00:00Z INFO ok ", " in 12 ms", "10:00:00Z INFO ok", "in 12 ms"),
    "log-key": _labelled("level=info user=b %=", " status=200", "level=info user=b", "status=200"),
    "md-code": _framed("Run:\n```sh\ntool ", "\n```\nthen wait", "```sh\ntool", "then wait"),
    "md-table": _labelled("| name | value |\n|---|---|\n| % | ", " |", "| name | value |", "| % |"),
    "parentheses": _framed("the old one (", ") was revoked", "the old one (", ") was revoked"),
    "comma": _framed("we have ", ", and more", "we have", "and more"),
    "full-stop": _framed("It was ", ".", "It was"),
    "question": _framed("was it ", "? No", "was it", "? No"),
    "semicolon": _framed("a; ", "; b", "a;", "; b"),
    "literal-n": _framed("first\\n", "\\nlast", "first", "last"),
    "literal-t": _framed("first\\t", "\\r\\nlast", "first", "last"),
    "curl-header": _framed("curl -H 'X-Deploy-Token: ", "' https://acme.io", "X-Deploy-Token:", "https://acme.io"),
    "label-colon": _labelled("%: ", "", "%:"),
    "label-is": _labelled("our % is ", " since May", "our % is", "since May"),
    "set-to": _labelled("set % to `", "` and restart", "set % to", "and restart"),
    "back-ticks": _framed("use `", "` here", "use `", "` here"),
    "quoted": _framed('it is "', '" now', 'it is "', '" now'),
    "angle": _framed("<", "> was sent", "was sent"),
    "brackets": _framed("[", "] was sent", "was sent"),
    "html": _framed("<td>", "</td>", "<td>", "</td>"),
    "url-path": _framed("https://api.acme.io/v1/", "/ping", "https://api.acme.io/v1/"),
    "after-equals": _framed("x=", " y=2", "x=", "y=2"),
    "ansi": _framed("\x1b[31m", "\x1b[0m done", "done"),
    "crlf": _framed("one\r\n", "\r\ntwo", "one", "two"),
    "diff": _labelled("--- a/.env\n+++ b/.env\n-%=old\n+%=", "", "--- a/.env"),
    "glued-left": _framed("prod_", " ok", " ok"),
}  # fmt: skip
LABEL_NAMES = ("DEPLOY_TOKEN", "ACME_API_KEY", "SERVICE_SECRET", "AUTH_TOKEN", "BOT_TOKEN")

# a value of many lines, or one that is a whole document, fits between lines only
DOCUMENT_CONTEXTS = ("bare", "block-prose", "block-code", "block-log", "block-cjk")
BLOCKS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "block-prose": ("Here is what we use on staging:\n\n", "\n\nPlease rotate it in May.",
                    ("Here is what we use on staging:", "Please rotate it in May.")),
    "block-code": ("See:\n```\n", "\n```\nThat is all.", ("See:", "That is all.")),
    "block-log": ("step one done\n", "\nstep three began", ("step one done", "step three began")),
    "block-cjk": ("配置如下：\n", "\n完毕。", ("配置如下：", "完毕。")),
}  # fmt: skip


def in_context(name: str, value: Value, draw: Draw) -> Value:
    """The value in the named surroundings, with the words around it among what is kept."""
    if name in BLOCKS:
        before, after, keep = BLOCKS[name]
        return Value(before + value.text + after, value.secrets, value.keep + keep)
    text, keep = CONTEXTS[name](value.text, draw.pick(LABEL_NAMES), draw)
    return Value(text, value.secrets, value.keep + keep)


# surroundings of a value that only its label tells; the label's form is chosen beside it
LABEL_CONTEXTS: dict[str, tuple[str, str, str]] = {
    "env": ("env", "{}=", ""),
    "export": ("env", 'export {}="', '"'),
    "export-single": ("env", "export {}='", "'"),
    "ini": ("snake", "[main]\n{} = ", "\nhost = acme.io"),
    "json": ("snake", '{{"host": "acme.io", "{}": "', '", "on": true}}'),
    "json-compact": ("snake", '{{"{}":"', '","on":true}}'),
    "json-escaped": ("snake", '"{{\\"{}\\": \\"', '\\"}}"'),
    "yaml": ("snake", "app:\n  {}: ", "\n  port: 80"),
    "yaml-quoted": ("snake", "app:\n  {}: '", "'\n  port: 80"),
    "python": ("snake", '{} = "', '"'),
    "python-kwarg": ("snake", "connect({}='", "', port=80)"),
    "js": ("snake", "const {} = '", "';"),
    "label-colon": ("prose", "{}: ", ""),
    "label-is": ("prose", "the {} is ", " for now"),
    "label-is-quoted": ("prose", 'our {} is "', '".'),
    "set-to": ("env", "set {} to `", "` and restart"),
    "back-ticks": ("prose", "use the {} `", "` here"),
    "md-table": ("env", "| {} | `", "` |"),
    "log": ("snake", "level=info {}=", " status=200"),
    "dotenv-comment": ("env", "# staging\n{}=", "  # rotate in May"),
    "literal-n": ("env", "A=1\\n{}=", "\\nB=2"),
    "cli": ("snake", "tool --{}=", " --verbose"),
    "docker-e": ("env", "docker run -e {}=", " -p 80:80 app"),
    "compose": ("env", "environment:\n  - {}=", "\n  - PORT=80"),
    "paragraph": ("prose", "Note to self. {} = ", ", valid until May."),
}


def under_label(name: str, value: Value, labels: tuple[str, str, str]) -> Value:
    """The value behind its label, in the named surroundings."""
    form, before, after = LABEL_CONTEXTS[name]
    label = dict(zip(("env", "prose", "snake"), labels, strict=True))[form]
    if name == "cli":
        label = label.replace("_", "-")
    opened, closed = before.format(label), after.replace("}}", "}")
    keep = tuple(word for word in (label, after.strip(" \"'`;|\n#.})\\")) if len(word) > 2)
    return Value(opened + value.text + closed, value.secrets, value.keep + keep)


def _wrapped_in_quotes(text: str, draw: Draw) -> str:
    return draw.pick(("“{}”", "«{}»", "'{}'", '"{}"', "`{}`", "**{}**")).format(text)


def _escaped(text: str, _draw: Draw) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _punctuated(text: str, draw: Draw) -> str:
    return text + draw.pick((".", ",", ";", ")", "!", "?", ":", "。", "…", "\\", "|"))


def _far(text: str, draw: Draw) -> str:
    filler = "We moved the shop to the new cluster and nothing broke. " * draw.random.randrange(
        5, 60
    )
    return filler + text + " " + filler


def _quoted_mail(text: str, _draw: Draw) -> str:
    return "\n".join("> " + line for line in text.split("\n"))


def _indented(text: str, draw: Draw) -> str:
    return "\n".join(draw.pick(("    ", "\t", "  ")) + line for line in text.split("\n"))


def _upper_key(text: str, _draw: Draw) -> str:
    return "FYI:\t" + text


MUTATIONS: dict[str, Callable[[str, Draw], str]] = {
    "quotes": _wrapped_in_quotes,
    "escape-level": _escaped,
    "punctuation": _punctuated,
    "position": _far,
    "mail-quote": _quoted_mail,
    "indent": _indented,
    "tab": _upper_key,
}


def mutated(value: Value, names: tuple[str, ...], draw: Draw) -> Value:
    """The value's text after the named mutations; words that escaping changes are not kept."""
    for name in names:
        text = MUTATIONS[name](value.text, draw)
        keep = tuple(part for part in value.keep if part in text)
        value = dataclasses.replace(value, text=text, keep=keep)
    return value
