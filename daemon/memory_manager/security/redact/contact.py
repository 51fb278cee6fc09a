"""Contact data of the owner: removed only when the owner asked for it. Contract: redaction.md 9."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit

MAX_PHONE_DIGITS: Final = 15
_EMAIL: Final = late(
    r"[A-Za-z0-9\u00c0-\u024f][A-Za-z0-9\u00c0-\u024f._%+'-]{0,63}@"
    r"(?:[A-Za-z0-9\u00c0-\u024f][A-Za-z0-9\u00c0-\u024f-]{0,62}\.){1,6}[A-Za-z]{2,24}"
)
_NEVER_USERS: Final = frozenset(
    {"git", "noreply", "no-reply", "donotreply", "do-not-reply", "root"}
)
_NEVER_HOSTS: Final = late(
    r"(?:.*\.)?(?:example\.(?:com|org|net|edu)|example|invalid|localhost|test|local|internal)"
    r"|.*noreply.*"
)
_REMOTE_COMMAND: Final = late(
    r"\b(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id|npm|pnpm|yarn|npx)\b[^\n|;&\"'`]{0,80}$"
)
_REMOTE_PATH: Final = late(r":(?:[/~.]|[\w-]+/)")
# a leading plus is no part of a word or a sum, and dates of git (+0000 2026) begin with a zero
_INTERNATIONAL: Final = late(
    r"(?<![\w+.])(?:\+|00(?=[1-9]\d{6}))[1-9]\d{0,3}(?:[ ().\u00a0/-]{0,2}\d{1,5}){2,7}(?![\w-])"
)
_DIGIT_RUN: Final = late(r"\d(?:[ ().\u00a0/-]{0,2}\d){6}")
_LABELLED_PHONE: Final = late(
    r"(?i:\b(?:phones?|mobile|mobil|cell|cellphone|tel|telephone|telefon[eo]?|telefone|telem[oó]vel"
    r"|celular|m[oó]vil|handy|fax|whatsapp|portable|t[eé]l[eé]phone|telefoon|numer telefonu|cep"
    r"|call(?: me| us| him| her| them)?(?: at| on)?|ring(?: me)?(?: at| on)?|sms(?: to)?)"
    r"(?:[ -](?:number|no\.?|nr\.?|n[ºo°]\.?|#|is|numarası))?"
    r"|电话|手机|手机号|電話|電話番号|携帯|전화|전화번호|휴대폰|телефон|هاتف|جوال)"
    r"\s{0,4}[:=：#]?\s{0,4}"
    r"([(+]?\d[\d ().\u00a0/-]{5,20}\d)(?![\w-])"
)
_HANDLE: Final = late(
    r"(?i:\b(?:telegram|discord|skype|wechat|whatsapp|signal|line id|kakao(?:talk)?|twitter"
    r"|x handle|instagram|mastodon|matrix|threads|bluesky|slack|snapchat|viber|icq|zalo|threema)"
    r"|微信|微信号|抖音)"
    r"(?i: (?:id|handle|username|user|name))?\s{0,4}[:=：]\s{0,4}"
    r"(@?[A-Za-z0-9_][A-Za-z0-9_.#-]{1,39}(?:@[\w.-]{2,60}|:[\w.-]{2,60})?)"
)
_WORD_HANDLES: Final = frozenset(
    "true false yes no on off none null enabled disabled the a is are user name handle id "
    "todo tbd".split()
)
_STREET: Final = (
    r"Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Sq|Way|Place|Pl"
    r"|Terrace|Highway|Hwy|Close|Crescent|Parkway|Pkwy|Mews|Gardens|Row|Circle|Trail"
)
_ADDRESS: Final = late(
    r"\b\d{1,5}[A-Za-z]? (?:[A-Z0-9][\w.'-]{1,24} ){1,4}(?:" + _STREET + r")\b(?! to\b)\.?"
    r"(?:,? (?:Apt|Suite|Unit|Flat|Floor|#)\.? ?\w{1,6})?"
    r"(?:, ?[A-Z][\w .'-]{1,30}){0,3}(?:,? \d{4,6}(?:-\d{3,4})?)?"
    r"|\b(?:Rua|R\.|Avenida|Av\.|Travessa|Praça|Alameda|Largo|Estrada|Calle|C/|Plaza|Paseo|Rue|Quai"
    r"|Via|Viale|Corso|Piazza|ul\.|ulica|al\.|Cadde|Caddesi|Sokak)"
    r"(?: (?:d[aeo]s?|del?|de la|du|des|della|dei))?(?: [A-ZÀ-ÝĄ-Ż][\w.'À-ÿ-]{0,24}){1,4},? "
    r"(?:n[.ºo°]{0,2} ?|No: ?)?\d{1,5}[A-Za-z]?\b(?:,? (?:\d{4,5}(?:-\d{3})?) [A-ZÀ-Ý][\wÀ-ÿ-]+)?"
    r"|\b[0-9]{1,4}(?: bis| ter)?,? (?:rue|avenue|boulevard|place|quai|chemin|impasse|allée)"
    r"(?: (?:de la|de l'|du|des|de|d'))?(?: ?[A-ZÀ-Ý][\w'À-ÿ-]{1,24}){1,4}"
    r"(?:,? \d{5} [A-ZÀ-Ý][\wÀ-ÿ-]+)?"
    r"|\b[A-ZÄÖÜ][a-zäöüß-]{2,24}(?:straße|strasse|str\.|weg|platz|allee|gasse|damm|ring|ufer"
    r"|straat|laan|plein|gracht|kade) \d{1,4}[a-z]?\b(?:, ?\d{4,5}(?: ?[A-Z]{2})? [A-ZÄÖÜ][\w-]+)?"
    r"|(?:[\u4e00-\u9fff]{2,8}(?:省|市|区|縣|县|都|府|県)){1,3}"
    r"[\u4e00-\u9fff0-9]{1,20}(?:路|街|道|巷|丁目|町)"
    r"[\u4e00-\u9fff0-9-]{0,12}(?:号|號|番地|番|室)"
)


def contact_details(text: str, phone_region: str | None = None) -> Iterator[Hit]:
    """E-mail addresses, phone numbers, postal lines and labelled handles.

    Telephone numbers without a label are those with their country code and, for a region, those
    that are valid there.
    """
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if _is_personal_address(text, found):
                yield _hit(found.span(), "contact-email", 1)
    if "+" in text or "00" in text:
        for found in _INTERNATIONAL.finditer(text):
            if _is_phone_number(found[0]):
                yield _hit(found.span(), "contact-phone", 1)
    if phone_region is not None and _DIGIT_RUN.search(text):
        for number in _phone_numbers().PhoneNumberMatcher(text, phone_region):
            yield _hit((number.start, number.end), "contact-phone", 1)
    for found in _LABELLED_PHONE.finditer(text):
        if 7 <= sum(c.isdigit() for c in found[1]) <= MAX_PHONE_DIGITS:
            yield _hit(found.span(1), "contact-phone", 1)
    for found in _HANDLE.finditer(text):
        if found[1].lower() not in _WORD_HANDLES and not found[1].startswith("http"):
            start, end = found.span(1)
            yield _hit(
                (start, end - (len(found[1]) - len(found[1].rstrip(".-")))),
                "contact-handle",
                0,
            )
    for found in _ADDRESS.finditer(text):
        yield _hit(found.span(), "contact-address", 0)


def _hit(span: tuple[int, int], rule: str, specificity: int) -> Hit:
    return Hit(*span, rule, Severity.CONTACT_PII, specificity)


@functools.cache
def _phone_numbers() -> Any:
    # a large table of numbering plans, read at the first number only
    return importlib.import_module("phonenumbers")


def is_phone_region(region: str) -> bool:
    """Whether telephone numbers of this region (ISO 3166-1 alpha-2) are known."""
    return region in _phone_numbers().SUPPORTED_REGIONS


def _is_phone_number(candidate: str) -> bool:
    """Whether a number with its country code has a length its country gives out."""
    digits = "".join(c for c in candidate if c.isdigit())
    if candidate.startswith("00"):
        digits = digits[2:]
    if not 8 <= len(digits) <= MAX_PHONE_DIGITS:
        return False
    package = _phone_numbers()
    parse: Callable[[str, None], Any] = package.parse
    try:
        return bool(package.is_possible_number(parse("+" + digits, None)))
    except package.NumberParseException:
        return False


def _is_personal_address(text: str, found: re.Match[str]) -> bool:
    user, host = found[0].rsplit("@", 1)
    if user.lower() in _NEVER_USERS or _NEVER_HOSTS.fullmatch(host.lower()):
        return False
    line = text[max(0, found.start() - 100) : found.start()]
    if line.endswith(("://", "/")) or _REMOTE_COMMAND.search(line):
        return False
    return _REMOTE_PATH.match(text, found.end()) is None
