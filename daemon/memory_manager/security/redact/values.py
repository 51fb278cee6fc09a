"""Whether what stands after a label is a secret. Contract: redaction.md 4.3.

The decision is about shape and context only: digits among letters, symbols, runs of case, quotes.
What explains itself (a reference, a call, a type, a path, a date, a placeholder) is kept.
"""

from __future__ import annotations

import re
from typing import Final

from memory_manager.security.redact.chosen_words import is_chosen, is_name, is_scheme
from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.late import late
from memory_manager.security.redact.placeholders import is_placeholder, is_reference
from memory_manager.security.redact.randomness import (
    MIN_CHARACTERS_PER_RUN,
    case_runs,
    common_pairs,
    looks_random,
)

MAX_VALUE_CHARACTERS: Final = 16_384
MIN_WEAK: Final = 15  # a weak label needs a value as long as this
MAX_JUDGED: Final = 192
"""So much of a value tells whether it looks like a key."""

_EXPLAINS_ITSELF: Final = late(
    # dates, times, versions, sizes
    r"\d{4}-\d\d?-\d\d?(?:[T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?"
    r"|v?\d+(?:\.\d+){1,4}(?:[-+][\w.]+)?|[<>=^~]{1,2}\s?\d.*"
    r"|\d+(?:\.\d+)?\s?(?:ms|s|m|h|d|w|kb|mb|gb|kib|mib|%|px|em|rem|pt|k|x|min|sec|hours?|days?"
    r"|weeks?|bits?"
    r"|bytes?|chars?|characters?|tokens?|digits?|seconds?|minutes?)"
    r"|\d+[-_](?:[a-z]{2,12}[-_]?){1,3}|\d+[-_](?:of|to|or)[-_]\d+(?:[-_][a-z]{2,14}){0,3}"
    # paths and plain addresses
    r"|(?:[A-Za-z]:)?(?:\.{0,2}|~)[/\\](?:[^ \n\r@]{0,400})?"
    r"|[a-z][a-z0-9+.-]{1,20}://(?![^/\s]*:[^/\s]*@)[^\s?#]*"
    # generic types and calls
    r"|(?:Optional|Union|Option|Maybe|List|Array|Promise|Secret|SecretStr|Literal|Nullable)[\[<].*"
    r"|(?:var)?char\d?\s?\(\d+\)(?:\s.*)?"
    r"|(?:new |await |async |lambda |function\b|fn\b|return |typeof ).*"
    r"|[\w$][\w$.:>\-]*[\w$]?[!?]?\((?:.|\n)*"
    r"|[A-Za-z_]\w*\)[\[.(][^\n]*"
    # the end of a literal and a call, a type with a default
    r"|\w*[)\]}]{1,4}\.[A-Za-z_]\w*\([^\n]*|[A-Za-z_][\w.]*=(?:None|null|nil|True|False)"
    r"|\([\w$, :]*\)\s?=>.*|\[.*|\{.*|<.*"
    # own and foreign marks
    r"|\[?REDACTED\b.*",
    re.IGNORECASE,
)
# names of things that services publish: they identify, they open nothing
_PUBLIC_ID: Final = late(
    r"(?:cus|pi|price|evt|in|sub|prod|acct|ch|txn|pm|seti|si|il|re|dp|po|ii|plan|mb_sub|cs_(?:live|test))"
    r"_[0-9A-Za-z]{8,40}|pk_(?:live|test|prod)_\w{8,}|sb_publishable_[\w-]+|AC[0-9a-f]{32}"
    r"|A(?:ROA|IDA|GPA|IPA|NPA|NVA|PKA|SCA)[0-9A-Z]{16,17}|[0-9]:[0-9]{6,14}:[a-z]{3,8}:[0-9a-f]{10,40}"
    r"|G-[0-9A-Z]{8,12}|UA-\d{4,10}-\d{1,3}|(?:sha(?:1|224|256|384|512)|md5|blake[23]\w?)[:=-][0-9A-Za-z+/=_-]{16,}"
    r"|(?:h1|zh|narHash|g1):[0-9A-Za-z+/=]{16,}|age1[0-9a-z]{50,}|ssh-(?:rsa|ed25519|dss)\b.*|ecdsa-sha2-.*"
    r"|(?:prj|team|org|proj|user|usr|asst|thread|run|msg|file|chatcmpl|req|call|toolu|resp|dpl|vs|batch|ft"
    r"|wrkspc|acc|env|app|ws|id|job|task|trace|span|session_id)[_-][0-9A-Za-z]{8,36}"
    r"|(?:i|vpc|subnet|sg|ami|vol|snap|eni|rtb|igw|nat|acl|lt|eipalloc|pcx|tgw|vpce|eks|fs)-[0-9a-f]{8,17}"
)
_IDENTIFIER_CHAIN: Final = late(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+;?")
_INDEXED: Final = late(r"[A-Za-z_$][\w$.]*\[.*")
_EXPRESSION: Final = late(r"\(+[A-Za-z_$][\w$]*(?:[.(\[]|$)")
_SNAKE: Final = late(r"_?[A-Za-z]+\d{0,2}(?:_[A-Za-z]+\d{0,2}|_\d{1,2})+|[a-z]+(?:[A-Z][a-z]+)+\d?")
_NUMBERED_SNAKE: Final = late(r"\w*\d\d\w*")
_NUMBERED_PART: Final = late(r"(?:^|\.)[A-Za-z]{3,}\d{2,}(?:\.|$)")
_IDENTIFIER: Final = late(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]*)+")
# the source of a regular expression
_EXPRESSION_SOURCE: Final = late(
    r"\(\?[:=!<P]|\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|\\[swd])[^\]]*\]|\\[dws][*+{]|\[\^[^\]]+\][*+{]"
)
_SCREAMING: Final = late(
    r"[A-Z][A-Z]+\d?(?:_(?:[A-Z]{2,}\d{0,2}|\d{1,2}))+|[A-Z]{1,3}\d(?:_[A-Z]+)+"
)
_KEBAB_WORDS: Final = late(r"[a-z]{1,16}(?:-[a-z]{1,16})+")
_UUID: Final = late(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = late(r"[0-9a-fA-F]+")
_PATH_SEGMENTS: Final = late(r"[@\w.-]+(?:/[@\w.{}*-]+)+/?")
# a slash inside a password: letters with a number of several digits on one side of it
_SLASHED_PASSWORD: Final = late(
    r"(?:^|/)(?:[A-Za-z]+\d{2,}|\d{2,}[A-Za-z]+)\w*(?:/|$)|^[A-Z][a-z]{2,}/\d{4,}$"
)
# like a mark of ours, with an id that is none of ours: typed by somebody
_FORGED_MARK: Final = late(r"\[REDACTED:[^\]\s]{4,}\]?")
_NUMBER: Final = late(r"[+-]?\d[\d_,]*(?:\.\d+)?")
_SHORTCUT: Final = late(
    r"(?:(?:ctrl|cmd|alt|shift|meta|super|control|option|mod|win)[+-])+\S{1,12}",
    re.IGNORECASE,
)
_PASSPHRASE: Final = late(r"[^\W\d_A-Z]{2,14}(?:[ -][^\W\d_A-Z]{2,14}){2,11}")
_SENTENCE_WORDS: Final = frozenset(
    "a an and are as at be been but by can cannot do does enter for from has have if in incorrect "
    "into invalid is "
    "it its least less longer match may must new no not of old on one only or please reset same "
    "should "
    "that the their then these this to too use used using was weak when which will with without "
    "you your "
    "o os um uma de da do e em para por que se sua seu não el la los las un una del en y su es al "
    "con le les des une du et dans pour votre est der die das und ist ein eine nicht mit auf für "
    "ihr".split()
)
_SIGNS: Final = frozenset("!@#$%^&*+=~")
_SYMBOLS: Final = frozenset("!@#$%^&*+=?~/|\\:(){}[]<>§£€°")


def is_secret_value(
    value: str,
    family: Family,
    *,
    quoted: bool,
    tight: bool,
    sure: bool = False,
) -> bool:
    """Whether ``value`` counts as a secret under a label of this family.

    ``quoted``: it stood in quotes or is a whole field. ``tight``: ``=`` without blanks. ``sure``:
    the place itself announces a secret (a command line option, a netrc line), so plain words count
    too.
    """
    if family is Family.NONE or len(value) > MAX_VALUE_CHARACTERS:
        return family is not Family.NONE and " " not in value
    if len(value) < MIN_WEAK and family <= Family.VENDOR:
        return False
    if _FORGED_MARK.fullmatch(value):
        return family > Family.VENDOR
    chosen = family >= Family.SECRET and is_chosen(value, password=family is Family.PASSWORD)
    if explains_itself(value, quoted=quoted, chosen=chosen):
        return False
    if chosen and (family is Family.PASSWORD or tight or _NUMBERED_SNAKE.fullmatch(value)):
        return True
    if family is Family.PASSWORD:
        return _is_password(value, quoted=quoted, tight=tight, sure=sure)
    if family is Family.SECRET:
        return _is_token(value, quoted=quoted, tight=tight, sure=sure)
    if family is Family.VENDOR:
        return is_key_like(value)
    return _is_random_key(value) or (quoted and tight and _is_short_random_key(value))


def explains_itself(value: str, *, quoted: bool, chosen: bool = False) -> bool:
    """A placeholder, reference, expression, type, path, date or number: never a secret.

    ``chosen``: its words are none that names of things have.
    """
    if is_placeholder(value) or is_reference(value):
        return True
    if (
        len(value) <= 400
        and not chosen
        and _EXPLAINS_ITSELF.fullmatch(value) is not None
        and not (quoted and _looks_like_password(value))
        and not (value[0] in "/\\" and _has_random_part(value))
    ):
        return True
    if (
        _SCREAMING.fullmatch(value)
        or _SHORTCUT.fullmatch(value)
        or _EXPRESSION_SOURCE.search(value)
    ):
        return True
    if len(value) <= 400 and _PUBLIC_ID.fullmatch(value):
        return True
    if not chosen and _IDENTIFIER_CHAIN.fullmatch(value) and not _has_random_part(value):
        return not (quoted and _NUMBERED_PART.search(value) and value.count(".") == 1)
    if not (quoted or chosen) and _IDENTIFIER.fullmatch(value) and not _has_random_word(value):
        return True
    if is_scheme(value):
        return True
    if not quoted and (_INDEXED.fullmatch(value) or _EXPRESSION.match(value)):
        return True
    if _PATH_SEGMENTS.fullmatch(value) and not _has_random_part(value):
        return not (
            (value.count("/") == 1 and _SLASHED_PASSWORD.search(value))
            or (sum(c.isdigit() for c in value) >= 3 and looks_random(value))
        )
    return False


def _looks_like_password(value: str) -> bool:
    """Inside quotes a call or a bracket is text: ``"(pa55word)"``."""
    if " " not in value and len(value) >= 16 and value[-1] not in ")];},":
        signs = {c for c in value if c in _SIGNS}
        if len(signs) >= 3 and any(c.isdigit() for c in value):
            return True
    return (
        " " not in value
        and "(" not in value[1:]
        and any(c.isdigit() for c in value)
        and any(c.isalpha() for c in value)
        and value[0] in "[{<("
        and value[-1] not in "]}>)"
    )


def is_snake_case(value: str) -> bool:
    """A name of words joined by ``_``, or in camelCase, with numbers of at most two digits."""
    return _SNAKE.fullmatch(value) is not None


def _has_random_part(value: str) -> bool:
    parts = re.split(r"[./:>?@-]+", value)
    return any(
        len(part) >= 8
        and (
            looks_random(part)
            or (sum(c.isdigit() for c in part) >= 3 and any(c.isalpha() for c in part))
        )
        for part in parts
    )


_LONG_NUMBER: Final = late(r"\d{4}")
_KNOWN_NUMBER: Final = late(r"(?:iso|rfc|utf|sha|md|ed|cp|base|port|http)\d+$|(?:19|20)\d\d$", re.I)


def _has_random_word(value: str) -> bool:
    """Whether a part of a snake_case name is no word: words may end in, or hold, a few digits."""
    for part in value.split("_"):
        if len(part) >= 2 and part.isdigit():
            return True
        letters = "".join(c for c in part if c.isalpha())
        digits = len(part) - len(letters)
        if letters and _LONG_NUMBER.search(part) and not _KNOWN_NUMBER.search(part):
            return True
        if digits > 6 or (letters and digits >= len(letters)):
            return True
        if len(letters) >= 6 and common_pairs(letters) < 0.5 and not letters.isupper():
            return True
        if case_runs(part) < 2 and len(part) >= 6 and not part.isupper():
            return True
        if len(part) >= 8 and digits and case_runs(part) < 2.2 and not part.isupper():
            return True
        if len(part) >= 12 and digits >= 2 and case_runs(part) < MIN_CHARACTERS_PER_RUN:
            return True
    return False


def _is_password(value: str, *, quoted: bool, tight: bool, sure: bool) -> bool:
    if len(value) < 4:
        return False
    letters = any(c.isalpha() for c in value)
    digits = any(c.isdigit() for c in value)
    symbols = any(c in _SYMBOLS for c in value)
    if " " in value:
        return quoted and (_is_passphrase(value) or (digits and symbols and value.count(" ") <= 2))
    if not letters:
        return (digits and len(value) >= 6 and (tight or quoted or sure)) or (
            digits and symbols and _NUMBER.fullmatch(value) is None
        )
    if digits:
        return not _SNAKE.fullmatch(value) or value[0].isupper() or quoted or tight or sure
    if symbols and value[-1] not in ":?" and not value.endswith("!"):
        return any(c in _SYMBOLS for c in value.strip("()[]{}<>:/|"))
    if sure:
        return True
    if looks_random(value) and (quoted or tight or len(value) >= 12):
        return True
    if quoted and value.endswith("!") and len(value) >= 8:
        return True
    return _is_passphrase(value) if quoted and len(value) >= 14 else _sample_clause(value, tight)


_WORD_AND_NUMBER: Final = late(r"([A-Za-z]{4,20})[0-9]{1,4}!?")
_NUMBERS_INSIDE: Final = late(
    r"(?=[A-Za-z]+[0-9]+[A-Za-z])(?=(?:[^0-9]*[0-9]){2})[A-Za-z0-9]{7,24}!?"
)
_NUMBERED_THINGS: Final = (
    "algo appendix argon article auth base bcrypt block board build case cell chapter character "
    "client column config crc crypt day demo device draft ed entry error example exercise field "
    "figure file flow form format group hash hmac host http index input ipv issue item kdf layer "
    "length level line list lock log md message method mode model module neo node note number "
    "oauth option page panel part pass pbkdf phase pkcs point policy port position problem process "
    "proposal quarter question reason release request revision rfc room round rule sample scene "
    "schema screen scrypt section sector sequence series server sha sheet shot slide slot source "
    "ssl stage state step task test thread ticket tier tls todo topic type unit user utf value "
    "variant version volume week width win x"
).split()


def is_common_password(value: str) -> bool:
    """``hunter2``, ``pa55w0rd``: what people choose, and no name of a numbered thing."""
    found = _WORD_AND_NUMBER.fullmatch(value)
    lowered = value.lower()
    if found is not None:
        word = found[1].lower()
        return word not in _NUMBERED and word.removesuffix("s") not in _NUMBERED
    if _NUMBERS_INSIDE.fullmatch(value) is None:
        return False
    return _NUMBERED_START.match(lowered) is None and sum(c.isalpha() for c in value) >= 4


_NUMBERED: Final = frozenset(_NUMBERED_THINGS)
# the shortest of them are also how other words begin
_NUMBERED_START: Final = late(
    "|".join(name if len(name) > 2 else name + r"\d" for name in _NUMBERED_THINGS)
)


def _is_token(value: str, *, quoted: bool, tight: bool, sure: bool) -> bool:
    if len(value) < 8:
        return sure and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if " " in value:
        return quoted and _is_passphrase(value)
    if _NUMBER.fullmatch(value):
        return False
    letters = any(c.isalpha() for c in value)
    digits = any(c.isdigit() for c in value)
    if letters and digits:
        return not (_SNAKE.fullmatch(value) and not quoted) and not _named_thing(value)
    if any(c in "!@#$%^&*+=?~" for c in value.strip("=")) and letters:
        return len(value) >= 8 and not value.endswith(("?", "!"))
    if sure:
        return letters and _SNAKE.fullmatch(value) is None
    if looks_random(value) and len(value) >= 16:
        return True
    return _sample_clause(value, tight)


def _named_thing(value: str) -> bool:
    """``db-credentials-2``, ``oauth2-proxy-secret``: a resource name with a number in it.

    Four words and more that end in a number of two digits are a passphrase.
    """
    if _UUID.fullmatch(value):
        return False
    if value.islower() and is_name(value):
        return True
    parts = value.split("-")
    if len(parts) < 2:
        return False
    if len(parts) >= 4 and re.fullmatch(r"[a-z]{4,}\d{2}", parts[-1]):
        return False
    return (
        all(
            re.fullmatch(r"[a-z]{2,16}\d{0,2}|\d{1,3}", part) is not None
            and common_pairs(part) >= 0.5
            for part in parts
        )
        and sum(c.isdigit() for c in value) <= 3
    )


def _is_random_key(value: str) -> bool:
    """A weak label (``key``, ``auth``, ``session``) needs a value nobody would write by hand."""
    if len(value) < 20 or " " in value or _UUID.fullmatch(value) or _HEX.fullmatch(value):
        return False
    upper = any("A" <= c <= "Z" for c in value)
    lower = any("a" <= c <= "z" for c in value)
    digits = sum(c.isdigit() for c in value)
    if _SNAKE.fullmatch(value) or value.count("_") >= 2 or not re.fullmatch(r"[\w+/=.~-]+", value):
        return False
    return upper and lower and digits >= 2 and _has_random_part(value)


_SHORT_KEY: Final = late(r"[0-9A-Za-z+/]{16,19}={0,2}")


def _is_short_random_key(value: str) -> bool:
    """``key="..."``: in quotes right behind a weak label sixteen characters of all kinds do."""
    return (
        _SHORT_KEY.fullmatch(value) is not None
        and sum(c.isdigit() for c in value) >= 2
        and any("A" <= c <= "Z" for c in value)
        and any("a" <= c <= "z" for c in value)
        and case_runs(value) < MIN_CHARACTERS_PER_RUN
    )


_KEY_CHARACTERS: Final = late(r"[\w+/=.~:|$!-]{15,}")


def is_key_like(value: str) -> bool:
    """What services hand out as keys: long, of letters and digits, hexadecimal and UUIDs too."""
    value = value[:MAX_JUDGED]
    if _KEY_CHARACTERS.fullmatch(value) is None or _named_thing(value):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isascii() and c.isalpha() for c in value)
    if _UUID.fullmatch(value) or (_HEX.fullmatch(value) and letters and digits):
        return True
    if _SNAKE.fullmatch(value) or letters < 2:
        return False
    if digits < 2:
        return letters >= 20 and looks_random(value)
    return any(
        len(part) >= 10 and (looks_random(part) or sum(c.isdigit() for c in part) >= 2)
        for part in re.split(r"[_.:/|~-]+", value)
    ) or (digits >= 4 and case_runs(value) < MIN_CHARACTERS_PER_RUN)


def _sample_clause(value: str, tight: bool) -> bool:
    """``token=not-a-real-secret``: words joined by hyphens cannot be an identifier."""
    return tight and len(value) >= 8 and _KEBAB_WORDS.fullmatch(value) is not None


def _is_passphrase(value: str) -> bool:
    """Three or more plain lower-case words that do not read as a sentence."""
    if _PASSPHRASE.fullmatch(value) is None:
        return False
    return not any(word in _SENTENCE_WORDS for word in re.split(r"[ -]", value))
