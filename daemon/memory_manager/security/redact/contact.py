"""Contact data of the owner: removed only when the owner asked for it. Contract: redaction.md 9."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit

_EMAIL: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._%+'-]{0,63}@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,6}[A-Za-z]{2,24}"
)
_NEVER_USERS: Final = frozenset({"git", "noreply", "no-reply", "donotreply", "root"})
_NEVER_HOSTS: Final = re.compile(
    r"(?:.*\.)?(?:example\.(?:com|org|net)|example|invalid|localhost|test|local)|.*noreply.*"
)
_INTERNATIONAL: Final = re.compile(
    r"(?<![\w+.])\+[1-9]\d{0,3}(?:[ ().-]{0,2}\d{1,5}){2,6}(?![\w-])"
)
_LABELLED_PHONE: Final = re.compile(
    r"(?i:\b(?:phone|mobile|cell|tel|telephone|telefon[eo]?|telefone|celular|m[oó]vil|handy|fax"
    r"|whatsapp|call me at|"
    r"电话|手机|電話|携帯|전화|телефон)(?: (?:number|no\.?|is))?\s{0,4}[:=：]?\s{0,4})"
    r"(\(?\d[\d ().-]{5,20}\d)"
)
_HANDLE: Final = re.compile(
    r"(?i:\b(?:telegram|discord|skype|wechat|whatsapp|signal|line id|kakao|twitter|x handle|微信)"
    r"(?: (?:id|handle|username|user))?\s{0,4}[:=：]\s{0,4})(@?[A-Za-z0-9_.#-]{3,40})"
)
_ADDRESS: Final = re.compile(
    r"\b\d{1,5}[A-Za-z]? (?:[A-Z][\w.'-]{1,24} ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive"
    r"|Dr|Boulevard"
    r"|Blvd|Court|Ct|Square|Sq|Way|Place|Pl|Terrace|Highway|Hwy)\b\.?(?:,? (?:Apt|Suite|Unit"
    r"|#) ?\w{1,6})?"
    r"(?:, ?[A-Z][\w .'-]{1,30}){0,3}(?:,? \d{4,6}(?:-\d{4})?)?"
    r"|\b(?:Rua|Avenida|Av\.|Travessa|Praça|Alameda|Calle|Avenida|Plaza|Rue|Via|Viale)"
    r"(?: (?:d[aeo]s?|del?|de la|du"
    r"|des))?(?: [A-ZÀ-Ý][\w.'À-ÿ-]{1,24}){1,4},? (?:n[.ºo°]{0,2} ?)?\d{1,5}\b"
    r"|\b[A-ZÄÖÜ][a-zäöüß]{2,24}(?:straße|strasse|str\.|weg|platz|allee"
    r"|gasse) \d{1,4}[a-z]?\b(?:, ?\d{5} [A-ZÄÖÜ][\w-]+)?"
)


def contact_details(text: str) -> Iterator[Hit]:
    """E-mail addresses, phone numbers, postal lines and labelled handles."""
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if _is_personal_address(text, found):
                yield Hit(*found.span(), "contact-email", Severity.CONTACT_PII, 1)
    if "+" in text:
        for found in _INTERNATIONAL.finditer(text):
            if 8 <= sum(c.isdigit() for c in found[0]) <= 15:
                yield Hit(*found.span(), "contact-phone", Severity.CONTACT_PII, 1)
    for found in _LABELLED_PHONE.finditer(text):
        if 7 <= sum(c.isdigit() for c in found[1]) <= 15:
            yield Hit(*found.span(1), "contact-phone", Severity.CONTACT_PII, 1)
    for found in _HANDLE.finditer(text):
        yield Hit(*found.span(1), "contact-handle", Severity.CONTACT_PII, 0)
    for found in _ADDRESS.finditer(text):
        yield Hit(*found.span(), "contact-address", Severity.CONTACT_PII, 0)


def _is_personal_address(text: str, found: re.Match[str]) -> bool:
    user, host = found[0].rsplit("@", 1)
    if user.lower() in _NEVER_USERS or _NEVER_HOSTS.fullmatch(host.lower()):
        return False
    before = text[max(0, found.start() - 16) : found.start()].lower()
    after = text[found.end() : found.end() + 1]
    if before.endswith(("://", "ssh ", "scp ", ":")) and after in (":", "/"):
        return False
    return not before.endswith(("ssh ", "scp ", "://", "/"))
