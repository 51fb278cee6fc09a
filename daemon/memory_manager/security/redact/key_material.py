"""Private key blocks, seed phrases and checksummed keys: material found by structure.

These need more than one anchored pattern: a block may be escaped, indented or cut off, a seed
phrase is ordinary words, a WIF key has no literal. Contract: redaction.md 3, 13.5.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import re
from collections.abc import Iterator, Set
from typing import Final

from memory_manager.security.redact.bip39_words import WORDS
from memory_manager.security.redact.gate import lower_same_length
from memory_manager.security.redact.late import late
from memory_manager.security.redact.placeholders import is_placeholder
from memory_manager.security.redact.randomness import MIN_CHARACTERS_PER_RUN, case_runs
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.validators import base58check, stellar_seed

MAX_BLOCK_CHARACTERS: Final = 65_536
MIN_KEY_CHARACTERS: Final = 16
AWS_PAIR_DISTANCE: Final = 150
MAX_TOKEN_RUNS: Final = 2.2

_BEGIN: Final = late(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,3}(?:PRIVATE KEY(?: BLOCK)?|PRIVATE) ?-{4,5}"
)
_END: Final = late(r"-{4,5} ?END [A-Z0-9 ]{0,40}-{4,5}")
_NEXT_BEGIN: Final = late(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}-{4,5}")
_BREAK: Final = r"(?:\r?\n|\\+r\\+n|\\+n|\\+r|<br ?/?>)"
_LINE: Final = late(
    r"(?P<break>" + _BREAK + r"|[ \t]+)?"
    r"(?P<lead>(?:[\w./-]{1,80}[:-]\d{1,6}[:-])?(?:[ \t>|#*+,\"'`]|-(?!-)|//|\\+t|\\+\"){0,24})"
    r"(?P<body>(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Subject|x-[a-z-]+)\s?:"
    r"(?:[^\\\n\r]|\\(?![nr])){0,200}"
    r"|[A-Za-z0-9+/_-]{1,4096}={0,3})?"
)
_CORE: Final = late(r"[A-Za-z0-9+/=]{16,}")
_PUTTY_BEGIN: Final = late(r"PuTTY-User-Key-File-[1-9] ?:")
_PUTTY_END: Final = late(r"Private-MAC: ?[0-9a-fA-F]{8,}")
_PUTTY_LINE: Final = late(
    r"(?:[ \t>|#*+-]|"
    + _BREAK
    + r"[\w./-]{1,80}[:-]\d{1,6}[:-]|"
    + _BREAK
    + r")*(?:Encryption|Comment|Public-Lines|Private-Lines|Key-Derivation"
    r"|Argon2-[A-Za-z]+|Private-MAC|Private-Hash): ?[^\n\\]{0,200}"
    r"|(?:[ \t>|#*-]|" + _BREAK + r"[\w./-]{1,80}[:-]\d{1,6}[:-]|" + _BREAK + r")*"
    r"\+?[A-Za-z0-9+/]{16,128}={0,2}"
)


def armoured_blocks(text: str, seen: Set[str]) -> Iterator[Hit]:
    """PEM, OpenSSH, PGP and SSH2 private keys, whole, escaped, indented, on one line or cut off."""
    if "begin " in seen and "private" in seen:
        yield from _pem_blocks(text)
    if "putty-user-key-file-" in seen:
        end = 0
        for found in _PUTTY_BEGIN.finditer(text):
            if found.start() >= end:
                end = _putty_end(text, found.start())
                yield Hit(found.start(), end, "putty-key", Severity.HIGH_RISK, 3)


def _pem_blocks(text: str) -> Iterator[Hit]:
    begins = list(_BEGIN.finditer(text))
    if not begins:
        return
    footers = [found.span() for found in _END.finditer(text)]
    other_begins = [found.start() for found in _NEXT_BEGIN.finditer(text)]
    covered = 0
    for found in begins:
        if found.start() < covered:
            continue
        footer = bisect.bisect_left(footers, (found.end(), 0))
        other = bisect.bisect_left(other_begins, found.end())
        end: int | None = None
        if footer < len(footers) and (
            other >= len(other_begins) or other_begins[other] > footers[footer][0]
        ):
            inside = text[found.end() : footers[footer][0]]
            if len(inside) <= MAX_BLOCK_CHARACTERS:
                if _CORE.search(inside) is None or is_placeholder(inside.strip()):
                    continue
                end = footers[footer][1]
        if end is None:
            end = _truncated_end(text, found.end())
        if end is not None:
            yield Hit(found.start(), end, "private-key", Severity.HIGH_RISK, 3)
            covered = end


_KEY_LINES: Final = late(
    r"[A-Za-z0-9+/]{40,}={0,2}(?:(?:\r?\n|\\+n|[ \t])[ \t]{0,8}[A-Za-z0-9+/]{4,}={0,2})*"
)


def is_bare_header(text: str) -> bool:
    """A private key's first line with no body after it."""
    found = _BEGIN.search(text)
    return found is not None and _CORE.search(text, found.end()) is None


def key_lines(text: str) -> Iterator[Hit]:
    """Stretches that look like the body of an armoured key, for rows that hold a bare header."""
    for found in _KEY_LINES.finditer(text):
        body = found[0]
        if any(c.isdigit() for c in body) and any("A" <= c <= "Z" for c in body):
            yield Hit(*found.span(), "private-key", Severity.HIGH_RISK, 3)


def _truncated_end(text: str, start: int) -> int | None:
    """Where the key-like lines end; None when no key follows the header (a text about headers)."""
    position, core, full = start, 0, False
    while position < len(text):
        line = _LINE.match(text, position)
        if line is None or line.end() == position:
            break
        body = line["body"] or ""
        if body and ":" not in body:
            keylike = (
                len(body) >= MIN_KEY_CHARACTERS
                or (full and (line["break"] or "").strip(" \t") != "")
                or body.endswith("=")
            )
            if not keylike:
                break
            core += len(body)
            full = len(body) >= 40 and not body.endswith("=")
        elif not body:
            if not line["break"]:
                break
            full = False  # after a blank line only a long line is taken for more key
        position = line.end()
    return position if core >= MIN_KEY_CHARACTERS else None


def _putty_end(text: str, start: int) -> int:
    footer = _PUTTY_END.search(text, start, start + MAX_BLOCK_CHARACTERS)
    if footer is not None:
        return footer.end()
    first_break = re.compile(_BREAK).search(text, start, start + 200)
    position = first_break.start() if first_break else min(len(text), start + 60)
    while (line := _PUTTY_LINE.match(text, position)) is not None and line.end() > position:
        position = line.end()
    return position


_WORD: Final = late(r"[a-z]+")
_WORDS_IN_BYTES: Final = frozenset(word.encode() for word in WORDS)
_LETTERS: Final = bytes(
    code if 97 <= code <= 122 else code + 32 if 65 <= code <= 90 else 32 for code in range(256)
)
_MNEMONIC_SIZES: Final = (24, 21, 18, 15, 12)
_MNEMONIC_LABEL: Final = late(
    r"seed|mnemonic|recovery|phrase|wallet|backup words|bip-?39|助记词|semente|semilla|シード"
)
_LABEL_END: Final = late(r"[\s\"'`*]{0,4}[:=：][\s\"'`*\[({]{0,6}")
_BETWEEN_WORDS: Final = late(r"[\s,;|\"'.)(:\d\\\[\]#*-]{0,12}")


def seed_phrases(text: str) -> Iterator[Hit]:
    """BIP-39 phrases: list words in a row with a valid checksum, a label, or a line alone."""
    if not _twelve_in_a_row(text.encode("utf-8", "surrogatepass").translate(_LETTERS).split()):
        return
    lowered = lower_same_length(text)
    tokens = list(_WORD.finditer(lowered))
    run: list[re.Match[str]] = []
    for token in tokens:
        joined = (
            not run or _BETWEEN_WORDS.fullmatch(lowered, run[-1].end(), token.start()) is not None
        )
        if token[0] in WORDS and joined:
            run.append(token)
            continue
        yield from _phrases_in(lowered, run)
        run = [token] if token[0] in WORDS else []
    yield from _phrases_in(lowered, run)


def _twelve_in_a_row(words: list[bytes]) -> bool:
    """Whether twelve list words stand in a row: every twelfth word is looked at first."""
    for index in range(11, len(words), 12):
        if words[index] not in _WORDS_IN_BYTES:
            continue
        low = index
        while low > 0 and words[low - 1] in _WORDS_IN_BYTES:
            low -= 1
        high = index
        while high + 1 < len(words) and words[high + 1] in _WORDS_IN_BYTES:
            high += 1
        if high - low >= 11:
            return True
    return False


def _phrases_in(lowered: str, run: list[re.Match[str]]) -> Iterator[Hit]:
    if len(run) < 12:
        return
    # a label in front may be list words too: "recovery phrase: ..."
    first = 0
    for index in range(1, len(run)):
        if _LABEL_END.fullmatch(lowered, run[index - 1].end(), run[index].start()):
            if len(run) - index < 12:
                break
            first = index
    words = run[first:]
    numbers = [WORDS[token[0]] for token in words]
    if all(low < high for low, high in itertools.pairwise(numbers)):
        return  # an excerpt of the word list itself
    start, end = words[0].start(), words[-1].end()
    label = _MNEMONIC_LABEL.search(lowered, max(0, start - 80), start) is not None
    if len(words) in _MNEMONIC_SIZES and len(set(numbers)) >= len(words) // 2:
        if label or _stands_alone(lowered, start, end):
            yield Hit(start, end, "bip39-mnemonic", Severity.HIGH_RISK, 3)
            return
    # words around a phrase may be on the list too: every window whose checksum holds goes
    found = False
    for index in range(len(words) - 11):
        for size in _MNEMONIC_SIZES:
            part = numbers[index : index + size]
            if len(part) == size and len(set(part)) >= size // 2 and _checksum_holds(part):
                found = True
                yield Hit(
                    words[index].start(),
                    words[index + size - 1].end(),
                    "bip39-mnemonic",
                    Severity.HIGH_RISK,
                    3,
                )
    if label and not found and len(words) <= 30 and len(set(numbers)) >= len(words) // 2:
        yield Hit(start, end, "bip39-mnemonic", Severity.HIGH_RISK, 3)


def _stands_alone(lowered: str, start: int, end: int) -> bool:
    before = lowered[max(0, start - 16) : start].rstrip(" \t\"'`[({")
    after = lowered[end : end + 16].lstrip(" \t\"'`,.])")[:1]
    return (not before or before.endswith(("\n", ":", "="))) and after in (
        "",
        "\n",
        "}",
        "\\",
        "<",
    )


def _checksum_holds(numbers: list[int]) -> bool:
    number = 0
    for word in numbers:
        number = number << 11 | word
    bits = len(numbers) * 11
    check_bits = bits // 33
    entropy = (number >> check_bits).to_bytes((bits - check_bits) // 8, "big")
    expected = hashlib.sha256(entropy).digest()[0] >> (8 - check_bits)
    return number & ((1 << check_bits) - 1) == expected


_WIF: Final = late(r"[5KLc9][1-9A-HJ-NP-Za-km-z]{50,51}")
_STELLAR: Final = late(r"S[A-Z2-7]{55}")
_DISCORD: Final = late(r"[MNO][0-9A-Za-z_-]{23,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,60}")
_ALNUM: Final = late(r"[0-9A-Za-z]{51,60}")


# a shape that many services share: a short name in lower case, an underscore, a long body
_PREFIXED: Final = late(
    r"([a-z][a-z0-9]{1,11}(?:_[a-z0-9]{1,8}){0,2})[_-]([0-9A-Za-z]{28,}={0,2}|[0-9A-Za-z]{16,}_[0-9A-Za-z]{24,})(?![0-9A-Za-z_+/-])"
)
_ID_WORDS: Final = frozenset(
    "asst asset blake2b blake3 batch call cat chatcmpl chunk class client cs css cur "
    "cursor doc dpl ecdsa ed25519 env event evt "
    "fc file font ft hash id image img index integrity intent item job key main md5 "
    "message module msg next node "
    "object order org page part pk pm post pr prj product proj project pub public record ref req "
    "request resp response row rs rsa run sha sha1 sha224 sha256 sha384 sha512 site "
    "size slot src step svg sym task team thread "
    "trace txn type uid upload user usr value vendor version vs wf".split()
)


def long_run_keys(text: str, start: int, end: int) -> Iterator[Hit]:
    """Keys without a literal in one long unbroken run: WIF, Stellar seeds, Discord tokens, and
    bodies drawn at random behind the short name of a service nobody listed.
    """
    run = text[start:end]
    if "." in run:
        for found in _DISCORD.finditer(text, start, end):
            yield Hit(*found.span(), "discord-bot-token", Severity.CREDENTIAL, 2)
    if "_" in run or "-" in run:
        for found in _PREFIXED.finditer(text, start, end):
            if _is_prefixed_token(text, found):
                yield Hit(*found.span(), "prefixed-token", Severity.CREDENTIAL, 1)
    for part in _ALNUM.finditer(text, start, end):
        wif = _WIF.fullmatch(text, *part.span())
        if wif is not None and base58check(wif[0]):
            yield Hit(*part.span(), "wif", Severity.HIGH_RISK, 3)
        seed = _STELLAR.fullmatch(text, *part.span())
        if seed is not None and stellar_seed(seed[0]):
            yield Hit(*part.span(), "stellar-secret-seed", Severity.CREDENTIAL, 2)


def _is_prefixed_token(text: str, found: re.Match[str]) -> bool:
    before = text[found.start() - 1] if found.start() else " "
    if before.isascii() and (before.isalnum() or before in "_+-"):
        return False
    body = found[2].rstrip("=")
    words = found[1].split("_")
    digits = sum("0" <= c <= "9" for c in body)
    return (
        any("A" <= c <= "Z" for c in body)
        and any("a" <= c <= "z" for c in body)
        and digits >= (1 if len(body) >= 32 else 3)
        and case_runs(body) < (MAX_TOKEN_RUNS if digits < 3 else MIN_CHARACTERS_PER_RUN)
        and _ID_WORDS.isdisjoint(words)
    )


_AWS_SECRET: Final = late(r"[A-Za-z0-9/+]{40}")
_AWS_RUN: Final = late(r"[A-Za-z0-9/+=]{40,44}")


def aws_secrets_near(text: str, start: int, end: int) -> Iterator[Hit]:
    """40-character secrets close to a key id that stands at ``start``..``end``."""
    low = max(0, start - AWS_PAIR_DISTANCE)
    high = min(len(text), end + AWS_PAIR_DISTANCE)
    for run in _AWS_RUN.finditer(text, low, high):
        body = run[0].strip("=")
        if is_aws_secret(body):
            offset = run.start() + run[0].index(body)
            yield Hit(offset, offset + 40, "aws-secret-access-key", Severity.HIGH_RISK, 3)


def aws_secrets_in(text: str) -> Iterator[Hit]:
    """The same anywhere in a text, for rows that hold a key id in another field."""
    for run in _AWS_RUN.finditer(text):
        if is_aws_secret(run[0].strip("=")):
            yield Hit(*run.span(), "aws-secret-access-key", Severity.HIGH_RISK, 3)


def is_aws_secret(body: str) -> bool:
    """40 characters of both cases and digits that are neither a digest nor a path nor a sample."""
    if _AWS_SECRET.fullmatch(body) is None or is_placeholder(body):
        return False
    return (
        any("A" <= c <= "Z" for c in body)
        and any("a" <= c <= "z" for c in body)
        and any(c.isdigit() or c in "/+" for c in body)
    )


_JWK_MEMBER: Final = late(
    r"\\*[\"'](?P<name>d|p|q|dp|dq|qi"
    r"|k)\\*[\"']\s{0,8}:\s{0,8}\\*[\"'](?P<value>[0-9A-Za-z_-]{16,1400}=*)\\*[\"']"
)
JWK_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})


def jwk_members(text: str, seen: Set[str]) -> Iterator[Hit]:
    """The private members of JSON Web Keys in JSON text."""
    if '"kty' not in seen and "'kty" not in seen:
        return
    for found in _JWK_MEMBER.finditer(text):
        yield Hit(*found.span("value"), "jwk-private", Severity.HIGH_RISK, 3)


_CODES_HEADING: Final = late(
    r"(?:recovery|backup|scratch|emergency|one[- ]time|2fa|mfa|reserve)[- ](?:login "
    r"|access )?(?:codes?|keys?)"
    r"|c[oó]digos? de (?:recupera[cç][aã]o|recuperaci[oó]n|respaldo|backup)|codes? de (?:secours"
    r"|r[eé]cup[eé]ration)"
    r"|wiederherstellungscodes?|резервные коды|恢复代码|恢復代碼|备用验证码"
    r"|リカバリーコード|バックアップコード|복구 코드"
    r"|kurtarma kodları"
)
_CODE: Final = late(r"(?:[0-9a-z]{3,8}(?:[- ][0-9a-z]{3,8}){1,5}|[0-9]{6,12}|[0-9a-z]{8,16})")


CODES_HINTS: Final = frozenset(
    {
        "recovery",
        "backup",
        "scratch",
        "emergency",
        "one-time",
        "one time",
        "2fa",
        "mfa",
        "reserve",
        "code de",
        "codes de",
        "codigo",
        "código",
        "wiederherstellung",
        "резервные коды",
        "恢复代码",
        "恢復代碼",
        "备用验证码",
        "リカバリーコード",
        "バックアップコード",
        "복구 코드",
        "kurtarma kodlar",
    }
)


def recovery_codes(lowered: str) -> Iterator[Hit]:
    """Two or more codes under a heading that calls them recovery or backup codes; for texts with
    one of ``CODES_HINTS``.
    """
    if "cod" not in lowered and "key" not in lowered and lowered.isascii():
        return
    headings = list(_CODES_HEADING.finditer(lowered))
    if not headings:
        return
    ends = [*(heading.start() for heading in headings[1:]), len(lowered)]
    for heading, end in zip(headings, ends, strict=True):
        hits = list(_codes_after(lowered, heading.end(), end))
        if len(hits) >= 2:
            yield from hits


def _codes_after(lowered: str, start: int, end: int) -> Iterator[Hit]:
    block = lowered[start : min(end, start + 1200)]
    blank = re.search(r"\S[ \t]*\n[ \t]*\n[ \t]*(?=[a-z]+ [a-z]+ )", block)
    if blank is not None:
        block = block[: blank.end()]
    plain: list[tuple[str, Hit]] = []
    shapes: set[str] = set()
    for piece in re.finditer(r"[^\n,;|]+", block):
        content = piece[0].replace("\\n", "\n").strip(" \t-*•>`\"'[]().:")
        content = re.sub(r"^\d{1,2}[.):]\s+", "", content)
        for word in re.split(r"\n|\s{2,}|(?<=[0-9a-z]{8}) (?=[0-9a-z]{8})", content):
            code = word.strip(" \t-*•>`\"'[]().:")
            if _CODE.fullmatch(code) is None or len({*map(len, code.split(" "))}) > 1:
                continue
            offset = start + piece.start() + piece[0].index(code)
            hit = Hit(offset, offset + len(code), "recovery-codes", Severity.CREDENTIAL, 1)
            shape = re.sub(r"[0-9a-z]", "x", code)
            if any(c.isdigit() for c in code):
                shapes.add(shape)
                yield hit
            elif " " not in code:
                plain.append((shape, hit))
    # a code of letters only is told by its neighbours of the same shape
    yield from (hit for shape, hit in plain if shape in shapes)


HINTS: Final = frozenset(
    {"begin ", "private", "putty-user-key-file-", '"kty', "'kty"} | CODES_HINTS
)
"""Literals that the readers above ask for; the gate looks them all up in one pass."""
