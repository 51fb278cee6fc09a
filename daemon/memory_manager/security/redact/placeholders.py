"""Values that only stand for a secret: marks of other redactors, fill-ins, references, published
samples.

A value counts as a placeholder only as a whole; a word inside a real secret never saves it.
Contract: redaction.md 4.3, 12.
"""

from __future__ import annotations

import re
from typing import Final

from memory_manager.security.redact.late import late

_PUBLISHED: Final = frozenset(
    {
        # the sample pairs of the AWS documentation, split so that no scanner takes them for keys
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ASIA" + "IOSFODNN7EXAMPLE",
        "AKIA" + "I44QH8DHBEXAMPLE",
        "wJalrXUtnFEMI" + "/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "je7MtGbClwBF" + "/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
    }
)

_WORDS: Final = (
    "changeme|change[-_ ]?(?:me|this|it)(?:[-_ ]?(?:please|now))?|replace[-_ "
    "]?(?:me|this|with.*)|todo|tbd|fixme|"
    "example|sample|dummy|fake|placeholder|redacted|removed|masked|hidden|encrypted|omitted|censored|filtered"
    "|"
    "null|none|nil|undefined|true|false|yes|no|on|off|empty|n/a|na|unset|unknown|"
    "your|yours|required|optional|string|value|default|auto|exemplo|ejemplo|exemple|beispiel"
)
_WHOLE: Final = late(
    r"(?:" + _WORDS + r")"
    r"|(?:your|insert|enter|put|add|replace)[-_ ](?:[a-z]{1,14}[-_ ]){0,6}[a-z]{1,14}"
    r"(?:[-_ ]?\d{1,2})?"
    r"|[a-z]{2,14}(?:[-_][a-z]{2,14}){0,6}[-_]here"
    r"|<[^<>\n]{0,80}>|\[[^\[\]\n]{0,80}\]|\{[^{}\n]{0,80}\}"
    r"|\*+[a-z_ -]{0,24}\*+|\*+|\.{2,}|…+|-+|_+|x{3,}|0+|#+|•+|\?+"
    r"|(?:[a-z0-9]{1,16}[-_])?(?:x{4,}|\.{3,}|\*{3,}|…)(?:[-_.](?:x{3,}|\.{3,}|\*{3,}))*",
    re.IGNORECASE,
)

_REFERENCE: Final = late(
    r"\$\{?[A-Za-z_][\w.:/-]*\}?|\$\{\{?.*|\$\(.*|%[A-Za-z_]\w*%|%\(\w+\)s|(?:%[sdrv][:@/]{0,3})+|\{\{.*|\{%.*"
    r"|\{[A-Za-z_][\w.]*\}"
    r"|`.*|![a-z]{3,12}(?:\s.*)?|!(?:Sub|Ref|GetAtt|Join|ImportValue|FindInMap|Select|Split|Base64)(?:\s.*)?|@\w*Microsoft\.KeyVault.*|#\{.*|<%.*|\$env:.*|\$[\w:]+"
    r"|[@:?][A-Za-z_]+|@[A-Za-z][\w.-]*@|\?"
    r"|(?:op|vault|ref|secretref|awssm|gcpsm|keyvault|akv|ssm|env|file|secret|secrets|sops|doppler)"
    r"(?:\+\w+)?:(?://)?[\w./#@:-]*"
    r"|arn:aws[\w-]*:.*"
    r"|(?:os\.environ|process\.env|import\.meta\.env"
    r"|ENV\[|env\.|var\.|local\.|data\.|secrets\.|vars\.|"
    r"config\.|settings\.|self\.|this\.|args\.|params\.|request\.|req\.|ctx\.|context\.).*",
)

_ONE_CHARACTER: Final = late(r"(.)\1*", re.DOTALL)


def is_placeholder(value: str) -> bool:
    """Whether the whole value is a fill-in, a foreign mark, one repeated character or a sample."""
    if value in _PUBLISHED or not value:
        return True
    if len(value) > 120:
        return _ONE_CHARACTER.fullmatch(value) is not None
    return _WHOLE.fullmatch(value) is not None or _ONE_CHARACTER.fullmatch(value) is not None


def is_reference(value: str) -> bool:
    """Whether the value names where a secret is kept instead of being one."""
    return len(value) <= 400 and _REFERENCE.fullmatch(value) is not None


def is_filled_body(body: str) -> bool:
    """Whether what follows a vendor prefix is only fill: X, zeros, dots, or words saying so."""
    core = body.strip("-_.")
    if not core or _ONE_CHARACTER.fullmatch(core.replace("-", "").replace("_", "").lower()):
        return True
    return len(body) <= 120 and _WHOLE.fullmatch(core) is not None
