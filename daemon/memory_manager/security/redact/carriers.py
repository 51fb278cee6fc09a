"""Generic carriers: URLs, authorization headers, cookies, command lines, netrc-like files.

Each reader keeps scheme, user, host, name and quotes and removes the value only.
Contract: redaction.md 7, 13.6.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Set
from typing import Final

from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.late import late
from memory_manager.security.redact.placeholders import is_placeholder, is_reference
from memory_manager.security.redact.randomness import looks_random
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.values import is_secret_value

_AUTHORITY: Final = late(r"://([^\s\"'<>`/\\]{1,1024})")
_QUERY: Final = late(r"[?#]")
# a question mark or hash belongs to the password when a plain user stands before it and @ after it
_ODD_PASSWORD: Final = late(r"[\w-]{0,40}:(?!\d{1,5}[?#])[^?#=&]{0,80}[?#][^=&]{0,80}@[\w.-]")
_VERSION: Final = late(r"\d+\.\d+\.\d+(?:[-+][\w.+-]+)?|[a-z]+")
_PUBLIC_DSN_HOST: Final = late(r"(?:[\w.-]*sentry[\w.-]*|[\w.-]*ingest[\w.-]*|[\w.:-]+/\d+)\b")


def url_userinfo(text: str) -> Iterator[Hit]:
    """Passwords (and tokens in their place) between ``://`` and ``@``."""
    position = text.find("://")
    while position >= 0:
        found = _AUTHORITY.match(text, position)
        end = position + 3
        if found is not None:
            end = found.end()
            authority = found[1]
            # a later scheme in the same run starts an authority of its own
            nested = authority.find("://")
            if nested >= 0:
                authority = authority[:nested]
                end = position + 3 + max(nested, 1)
            query = _QUERY.search(authority)
            if query is not None and not _ODD_PASSWORD.match(authority):
                authority = authority[: query.start()]
            at = authority.rfind("@")
            if at > 0:
                span = _userinfo_secret(authority[:at], authority[at + 1 :], text, found.end())
                if span is not None:
                    yield Hit(
                        position + 3 + span[0],
                        position + 3 + span[1],
                        "url-userinfo",
                        Severity.CREDENTIAL,
                        1,
                        bare_token=True,
                    )
        position = text.find("://", end)


def _userinfo_secret(userinfo: str, host: str, text: str, end: int) -> tuple[int, int] | None:
    colon = userinfo.find(":")
    if colon < 0:
        if len(userinfo) < 16 or not any(c.isdigit() for c in userinfo) or "." in userinfo:
            return None
        if _PUBLIC_DSN_HOST.match(host + text[end : end + 20]):
            return None
        return (0, len(userinfo)) if _wanted(userinfo) else None
    user, password = userinfo[:colon], userinfo[colon + 1 :]
    if not password or not _wanted(password):
        return None
    if user.strip("[<").lower() in _USERS and password.strip("]>").lower() in _PASSWORDS:
        return None
    if _VERSION.fullmatch(host) and host[:1].isdigit():
        return None
    if password.isdigit() and len(password) <= 5 and ("." in user or user == "localhost"):
        return None
    return colon + 1, len(userinfo)


_USERS: Final = frozenset({"user", "username", "name", "login"})
_PASSWORDS: Final = frozenset({"pass", "password", "passwd", "pwd", "pw"})


def _wanted(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value)


_AUTH_HEADER: Final = late(
    r"(?:proxy-)?authorization\\{0,8}[\"']?[\])]?[ \t]{0,8}(?::|=>?|,)[ \t]{0,8}\\{0,8}[\"'`]?"
    r"(?:(?P<scheme>bearer|basic|token|apikey|api-key|ssws|bot|key|jwt|splunk|genie-?key"
    r"|zoho-oauthtoken)[ \t+]{1,4})?"
    r"(?P<value>[^\s\"'`<>\\,;]{8,8192})",
    re.IGNORECASE,
)
_SCHEME: Final = late(
    r"(?P<scheme>bearer|basic|ssws|apikey)[ \t]{1,4}(?P<value>[0-9A-Za-z._~+/=-]{12,8192})",
    re.IGNORECASE,
)
_SCHEME_WORDS: Final = frozenset(
    word + blank for word in ("bearer", "basic", "ssws", "apikey") for blank in (" ", "\t")
)
_DIGEST: Final = late(r"\bresponse=\\?\"?([0-9a-f]{32,64})", re.IGNORECASE)


def authorization(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Values of Authorization headers, and of a scheme word on its own."""
    if "authorization" in seen:
        for found in _AUTH_HEADER.finditer(text):
            value = found["value"]
            scheme = (found["scheme"] or "").lower()
            if not _wanted(value) or value.lower() in ("bearer", "digest", "negotiate"):
                continue
            if scheme == "basic" and not _is_basic(value):
                continue
            if is_secret_value(value, Family.SECRET, quoted=True, tight=True, sure=bool(scheme)):
                yield Hit(*found.span("value"), "auth-header", Severity.CREDENTIAL, 1)
        for digest in _DIGEST.finditer(text):
            yield Hit(*digest.span(1), "auth-header", Severity.CREDENTIAL, 1)
    if not _SCHEME_WORDS.isdisjoint(seen):
        for found in _SCHEME.finditer(text):
            value = found["value"].rstrip(".")
            scheme = found["scheme"].lower()
            good = (
                _is_basic(value)
                if scheme == "basic"
                else sum(c.isdigit() for c in value) >= 2 or looks_random(value)
            )
            if good and _wanted(value) and not value.startswith(("-", "/")):
                start = found.start("value")
                yield Hit(start, start + len(value), "auth-header", Severity.CREDENTIAL, 1)


def _is_basic(value: str) -> bool:
    """Base64 of ``user:password``, or close enough to it to be cut off."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return any(c.isdigit() for c in value) and len(value) >= 16
    return b":" in decoded or (len(value) >= 16 and any(c.isdigit() for c in value))


_COOKIE_HEADER: Final = late(
    r"(set-)?cookie2?\\{0,8}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,8}[\"']?", re.IGNORECASE
)
_COOKIE_PAIR: Final = late(r"([!#$%&*+.^_|~0-9A-Za-z-]{1,80})=([^\s;,\"'\\]{0,4096})(;[ \t]{0,4})?")
_COOKIE_HARMLESS: Final = late(
    r"_ga.*|_gid|_gcl.*|_fbp|utm.*|lang|locale|theme|path|domain|expires|max-age|samesite|priority"
    r"|version|tz|timezone",
    re.IGNORECASE,
)


def cookies(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Values in Cookie and Set-Cookie headers; names and attributes stay."""
    if "cookie" not in seen:
        return
    for header in _COOKIE_HEADER.finditer(text):
        position, first = header.end(), True
        while True:
            pair = _COOKIE_PAIR.match(text, position)
            if pair is None:
                break
            value = pair[2]
            wanted = not _COOKIE_HARMLESS.fullmatch(pair[1]) and (first or header[1] is None)
            if wanted and _is_cookie_secret(value):
                yield Hit(*pair.span(2), "cookie", Severity.CREDENTIAL, 1)
            first = False
            position = pair.end()
            if pair[3] is None:
                break


def _is_cookie_secret(value: str) -> bool:
    if len(value) < 8 or not _wanted(value):
        return False
    if any(c.isdigit() for c in value) and any(c.isalpha() for c in value):
        return True
    return len(value) >= 12 and looks_random(value)


_USER_OPTION: Final = late(
    r"(?:^|[\s\"'\[(])(?:-u|--user|--auth|--proxy-user|-U|--userpass)(?:[ =]{1,4}"
    r"|\\?[\"'], ?\\?[\"'])\\?[\"']?"
    r"([^\s:\"'\\]{1,80}):([^\s\"'\\]{1,256})"
)
_USER_HINTS: Final = frozenset({" -u", '"-u', "'-u", "--user", "--auth", "--proxy-user", "\n-u"})
_VALUE: Final = r"[\"']?([^\s\"'\\$<{%-][^\s\"'\\]{3,256})"
_LITERAL: Final = r"N?\\?[\"']([^\"'\\\n]{4,256})\\?[\"']"
_COMMANDS: Final = (
    (True, ("zip ",), late(r"\bzip\b[^\n|;&]{0,80}?\s-P[ \t]{0,4}" + _VALUE)),
    (True, ("7z ",), late(r"\b7za? (?:a|x|e|t|l|u)\b[^\n|;&]{0,120}?\s-p(?!df\b|ng\b)" + _VALUE)),
    (
        True,
        ("openssl",),
        late(r"\bopenssl enc\b[^\n|;&]{0,200}?\s-(?:k|K|iv)[ \t]{1,4}" + _VALUE),
    ),
    (
        True,
        ("-u ", "-u\t", "--user"),
        late(
            r"\b(?:smbclient|rpcclient|net|wmic|winexe|smbget)\b[^\n|;&]{0,120}?\s(?:-U|--user)[ =]"
            r"[\"']?[^\s%\"']{1,60}%([^\s\"'\\]{4,128})"
        ),
    ),
    (
        True,
        ("http ", "https "),
        late(r"\bhttps? [^\n|;&]{0,80}?(?:-a|--auth)[ =][\"']?[^\s:\"']{1,80}:([^\s\"'\\]{4,256})"),
    ),
    (
        True,
        ("--from-literal", "securestring", "secretsmanager"),
        late(
            r"(?:\bsecret\b[^\n|;&]{0,200}?--from-literal[= ][\"']?[\w.-]{1,80}="
            r"|\bSecureString\b[^\n|;&]{0,120}?--value[= ]"
            r"|--value[= ](?=[^\n|;&]{0,260}--type[= ]SecureString\b))" + _VALUE
        ),
    ),
    (
        False,
        ("net user", "rabbitmqctl"),
        late(
            r"\b(?:net user [^\s/]{1,60}|rabbitmqctl (?:add_user|change_password) \S{1,60})"
            r"[ \t]{1,4}(?!/)" + _VALUE
        ),
    ),
    (
        False,
        ("cargo login", "pypi-token", "http-basic"),
        late(
            r"\b(?:cargo login(?: --registry \S{1,40})?|poetry config pypi-token\.[\w-]{1,40}"
            r"|poetry config http-basic\.[\w-]{1,40} \S{1,60})[ \t]{1,4}" + _VALUE
        ),
    ),
    (
        False,
        ("log in as", "login as", "logged in as", "sign in as", "signed in as"),
        late(
            r"(?i:\b(?:log|logged|sign|signed) ?in as \S{1,60} (?:with|using) )"
            r"[\"'`]?(?=[^\s]{0,40}[0-9])(?=[^\s]{0,40}[A-Za-z])([^\s\"'`\\]{7,128}[^\s\"'`\\.,;])"
        ),
    ),
    (
        True,
        ("curl ",),
        late(r"\bcurl\b[^\n|;&]{0,200}?\s(?:-b|--cookie)[ =][\"']?[\w.-]{1,60}=" + _VALUE),
    ),
    (True, ("lftp ",), late(r"\blftp\b[^\n|;&]{0,80}?\s-u[ \t]{0,4}[^\s,]{1,60}," + _VALUE)),
    (True, ("cqlsh",), late(r"\bcqlsh\b[^\n|;&]{0,120}?\s-p[ \t]{1,4}" + _VALUE)),
    (True, ("sudo -s",), late(r"\bsudo -S\b[^\n|;&<]{0,40}<<<[ \t]{0,4}" + _VALUE)),
    (False, ("@tcp(", "@unix("), late(r"\b[\w.-]{1,60}:([^\s:@/\"']{4,128})@(?:tcp|unix)\(")),
    (
        False,
        (".login(", ".authenticate("),
        late(r"\.(?:login|authenticate)\([ ]?[\"'][^\"'\n]{1,80}[\"'],[ ]?" + _LITERAL),
    ),
    (
        False,
        ("app password", "app-password", "app-specific"),
        late(
            r"(?i:app(?:-specific)?[- ]password)[ \t]{0,4}(?:is|[:=])?[ \t]{1,4}[\"'`]?"
            r"((?:[a-z]{4} ){3}[a-z]{4})(?![a-z])"
        ),
    ),
    (
        False,
        ("bitlocker", "recovery key", "recovery password"),
        late(r"(?<![0-9-])((?:[0-9]{6}-){7}[0-9]{6})(?![0-9-])"),
    ),
    (False, ("snmp-server",), late(r"\bsnmp-server community[ \t]{1,4}" + _VALUE)),
    (
        False,
        ("/p:",),
        late(r"\b(?:xfreerdp|wfreerdp|mstsc|cmdkey)\d?\b[^\n|;&]{0,160}?\s/p:" + _VALUE),
    ),
    (
        False,
        ("securestring",),
        late(r"(?i:ConvertTo-SecureString)(?: -String)?[ \t]{1,4}" + _LITERAL),
    ),
    (
        False,
        ("basicauth", "auth=", "auth ="),
        late(
            r"(?:BasicAuth|DigestAuth|\bauth[ ]?=[ ]?)\([ ]?[\"'][^\"'\n]{1,80}[\"'],[ ]?"
            + _LITERAL
        ),
    ),
    (False, ("password(",), late(r"(?i:= ?PASSWORD)\([ ]?" + _LITERAL)),
    (
        False,
        ("stdin", "secret put", "secret create", "secrets create", "secrets versions", "chpasswd"),
        late(
            r"\b(?:echo|printf)(?: -n)?[ \t]{1,4}[\"']?"
            r"(?:[\w.-]{1,40}:(?=[^\n|]{4,200}\|[^\n|]{0,9}\bchpasswd))?"
            r"([^\s\"'\\$:<{%-][^\s\"'\\]{5,256})[\"']?[ \t]{0,4}\|[ \t]{0,4}(?:sudo )?"
            r"(?:[^\n|;&]{0,120}-stdin\b|chpasswd\b"
            r"|[^\n|;&]{0,80}\bsecrets? (?:put|create|versions)\b)"
        ),
    ),
    (
        False,
        ("azurewebsites.net",),
        late(r"azurewebsites\.net/[^\s\"'<>]{0,200}[?&]code=([\w=%-]{20,200})"),
    ),
    (
        True,
        ("mysql", "mariadb"),
        late(
            r"\b(?:mysql\w{0,10}|mariadb\w{0,10})\b[^\n|;&]{0,200}?\s-p([^\s\"'\\=-][^\s\"'\\]{3,12"
            r"0})"
        ),
    ),
    (
        True,
        ("sshpass",),
        late(r"\bsshpass\s{1,4}-p\s{0,4}[\"']?([^\s\"'\\]{3,120})"),
    ),
    (
        True,
        ("redis-cli",),
        late(r"\bredis-cli\b[^\n|;&]{0,120}?\s-a\s{1,4}[\"']?([^\s\"'\\]{4,256})"),
    ),
    (
        True,
        (
            " login",
            "helm registry",
            "sqlcmd",
            "bcp ",
            "smbclient",
            "ldap",
            "mongo",
        ),
        late(
            r"\b(?:(?:docker|podman|az|oc|skopeo|crane|buildah) login|helm registry login|sqlcmd"
            r"|bcp|ldap\w{3,8}|mongo\w{0,8})"
            r"\b[^\n|;&]{0,160}?\s-(?:p|P|w)\s{1,4}[\"']?([^\s\"'\\-][^\s\"'\\]{3,256})"
        ),
    ),
    (
        True,
        ("openssl",),
        late(r"\bopenssl\b[^\n|;&]{0,200}?\s-pass(?:in|out)?\s{1,4}[\"']?pass:([^\s\"'\\]{3,256})"),
    ),
    (
        False,
        ("jdbc:oracle",),
        late(r"jdbc:oracle:\w{2,8}:[\w.$#-]{1,60}/([^\s\"'@]{3,128})@"),
    ),
    (
        False,
        ("sqlplus", "sqlldr", "impdp", "expdp"),
        late(
            r"\b(?:sqlplus|sqlldr|impdp|expdp)\b(?:\s-\w{1,4})*\s{1,4}[\w.$#-]{1,60}/([^\s\"'@/]{3,128})@"
        ),
    ),
    (
        False,
        ("requirepass", "masterauth"),
        late(r"\b(?:requirepass|masterauth)\s{1,4}[\"']?([^\s\"'\\]{4,256})"),
    ),
    (
        False,
        ("identified ", "password "),
        late(
            r"\b(?i:identified (?:with \w{3,40} )?by|(?:with "
            r"|encrypted )password)\s{1,4}\\?[\"']([^\"'\\\n]{3,256})"
        ),
    ),
)


_COMMAND_HINTS: Final = frozenset(hint for _, hints, _ in _COMMANDS for hint in hints)


def command_lines(text: str, lowered: str, seen: Set[str]) -> Iterator[Hit]:
    """Passwords given to programs as options or statements."""
    if not _USER_HINTS.isdisjoint(seen):
        for found in _USER_OPTION.finditer(text):
            user, password = found[1], found[2]
            if not _wanted(password) or (user.isdigit() and password.isdigit()):
                continue
            plain = password.isalpha() and password.islower()
            if plain and not re.search(
                r"curl|http|wget|api",
                lowered[max(0, found.start() - 200) : found.end() + 80],
            ):
                continue
            if user.startswith(("http", "$")) or password.startswith("//"):
                continue
            yield Hit(*found.span(2), "cli-credential", Severity.CREDENTIAL, 1)
    if seen.isdisjoint(_COMMAND_HINTS):
        return
    has_option = " -" in text
    for needs_option, anchors, pattern in _COMMANDS:
        if needs_option and not has_option:
            continue
        if not seen.isdisjoint(anchors):
            for found in pattern.finditer(text):
                if _wanted(found[1]):
                    yield Hit(*found.span(1), "cli-credential", Severity.CREDENTIAL, 1)


_PGPASS: Final = late(
    r"(?:^|(?<=[\n\"'`]))[ \t]{0,8}(?:[\w.*-]{1,80}):(?:\d{2,5}"
    r"|\*):(?:[\w.*-]{1,63}):(?:[\w.*@-]{1,63}):"
    r"((?:[^\s:\\\"'`]|\\[:\\]){4,256})",
)
PGPASS_HINT: Final = r":(?:[0-9]{2,5}|\*):[^\s:]{1,63}:[^\s:]{1,63}:\S"
_PGPASS_HINT: Final = late(PGPASS_HINT)
_NPM_AUTH: Final = late(r"(?:^|[\s\"'])_auth[ \t]?=[ \t]?\"?([0-9A-Za-z+/=]{8,400})")
_DOCKER_HINTS: Final = frozenset({'auth"', "auth'", 'auth\\"', "identitytoken", "registrytoken"})
_NETRC: Final = late(
    r"\b(?:machine[ \t\n]{1,8}[\w.:-]{1,120}"
    r"|default)[ \t\r\n]{1,8}(?:login[ \t]{1,8}\S{1,120}[ \t\r\n]{1,8})?"
    r"(?:account[ \t]{1,8}\S{1,80}[ \t\r\n]{1,8})?password[ \t]{1,8}[\"']?([^\s\"'`]{3,400})"
)
_DOCKER_AUTH: Final = late(
    r"\\{0,8}[\"'](?:auth|identitytoken"
    r"|registrytoken)\\{0,8}[\"']\s{0,8}:\s{0,8}\\{0,8}[\"']([0-9A-Za-z+/=_.-]{8,4096})"
)
_SECRET_KIND: Final = late(r"kind\\{0,8}[\"']?\s{0,4}:\s{0,4}\\{0,8}[\"']?Secret\b")
_SECRET_DATA: Final = late(
    r"(?:^|[\n{,])[ \t]{0,12}\\{0,8}[\"']?(?:string)?[dD]ata\\{0,8}[\"']?[ \t]{0,4}:[ \t]{0,4}(?=["
    r"\n{\\])"
)
_SECRET_ENTRY: Final = late(
    r"(?:[\s{,]|\\n){1,40}\\{0,8}[\"']?[\w.-]{1,80}\\{0,8}[\"']?[ \t]{0,4}:[ \t]{0,4}\\{0,8}[\"']?("
    r"[^\s\"'\\,{}|>][^\s\"'\\,{}]{3,8192})\\{0,8}[\"']?"
)


def pgpass_lines(text: str) -> Iterator[Hit]:
    """``host:port:database:user:password`` lines."""
    if _PGPASS_HINT.search(text):
        for found in _PGPASS.finditer(text):
            if _wanted(found[1]) and not found[1].isdigit():
                yield Hit(*found.span(1), "pgpass", Severity.CREDENTIAL, 1)


def credential_files(text: str, seen: Set[str]) -> Iterator[Hit]:
    """netrc, npm and docker configuration, Kubernetes Secret manifests."""
    if "password" in seen and ("machine" in seen or "default" in seen):
        for found in _NETRC.finditer(text):
            if _wanted(found[1]):
                yield Hit(*found.span(1), "netrc", Severity.CREDENTIAL, 1)
    if "_auth" in seen:
        for found in _NPM_AUTH.finditer(text):
            if _wanted(found[1]) and _is_basic(found[1]):
                yield Hit(*found.span(1), "npmrc-auth", Severity.CREDENTIAL, 1)
    if not _DOCKER_HINTS.isdisjoint(seen):
        for found in _DOCKER_AUTH.finditer(text):
            if _wanted(found[1]) and _is_basic(found[1]):
                yield Hit(*found.span(1), "docker-auth", Severity.CREDENTIAL, 1)
    if "kind" in seen and "secret" in seen and "data" in seen and _SECRET_KIND.search(text):
        for data in _SECRET_DATA.finditer(text):
            position = data.end()
            if text[position : position + 1] == "{":
                position += 1
            while (entry := _SECRET_ENTRY.match(text, position)) is not None:
                if _wanted(entry[1]):
                    yield Hit(*entry.span(1), "labelled-secret", Severity.CREDENTIAL, 1)
                position = entry.end()


STARTERS: Final = frozenset(
    {"authorization", "cookie", "password", "_auth", "kind"}
    | _SCHEME_WORDS
    | _USER_HINTS
    | _DOCKER_HINTS
    | _COMMAND_HINTS
)
"""Without one of these the readers above find nothing."""
HINTS: Final = STARTERS | {"machine", "default", "secret", "data"}
"""Literals that the readers above ask for; the gate looks them all up in one pass."""
