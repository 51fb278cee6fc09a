"""Passwords on command lines and in statements: options of programs, calls, SQL.

Each reader keeps program, user and quotes and removes the value only. Contract: redaction.md 13.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final

from memory_manager.security.redact.carriers import wanted
from memory_manager.security.redact.gate import lower_same_length
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit

_USER_OPTION: Final = late(
    r"(?:^|[\s\"'\[(])(?:-u|--user|--auth|--proxy-user|-U|--userpass)(?:[ =]{1,4}"
    r"|\\?[\"'], ?\\?[\"'])\\?[\"']?"
    r"([^\s:\"'\\]{1,80}):([^\s\"'\\]{1,256})"
)
_USER_HINTS: Final = frozenset({" -u", '"-u', "'-u", "--user", "--auth", "--proxy-user", "\n-u"})
_VALUE: Final = r"[\"']?([^\s\"'\\$<{%-][^\s\"'\\]{3,256})"
_LITERAL: Final = r"N?\\?[\"']([^\"'\\\n]{4,256})\\?[\"']"
_LOGIN_PROGRAMS: Final = ("docker", "podman", "az", "oc", "skopeo", "crane", "buildah")
# literals in lower case of which one must stand there, more as they are written, and the shape
_COMMANDS: Final[tuple[tuple[tuple[str, ...], tuple[str, ...], re.Pattern[str]], ...]] = (
    (("zip ",), ("-P",), late(r"\b(?:un)?zip\b[^\n|;&]{0,80}?\s-P[ \t]{0,4}" + _VALUE)),
    (
        ("7z ",),
        ("-p",),
        late(r"\b7za? (?:a|x|e|t|l|u)\b[^\n|;&]{0,120}?\s-p(?!df\b|ng\b)" + _VALUE),
    ),
    (
        ("openssl",),
        ("-k", "-K", "-iv"),
        late(r"\bopenssl enc\b[^\n|;&]{0,200}?\s-(?:k|K|iv)[ \t]{1,4}" + _VALUE),
    ),
    (
        ("-u ", "-u\t", "--user"),
        ("-U", "--user"),
        late(
            r"\b(?:smbclient|rpcclient|net|wmic|winexe|smbget)\b[^\n|;&]{0,120}?\s(?:-U|--user)[ =]"
            r"[\"']?[^\s%\"']{1,60}%([^\s\"'\\]{4,128})"
        ),
    ),
    (
        ("http ", "https "),
        ("-a ", "-a=", "--auth"),
        late(r"\bhttps? [^\n|;&]{0,80}?(?:-a|--auth)[ =][\"']?[^\s:\"']{1,80}:([^\s\"'\\]{4,256})"),
    ),
    (
        ("--from-literal", "securestring", "secretsmanager"),
        ("--from-literal", "--value"),
        late(
            r"(?:\bsecret\b[^\n|;&]{0,200}?--from-literal[= ][\"']?[\w.-]{1,80}="
            r"|\bSecureString\b[^\n|;&]{0,120}?--value[= ]"
            r"|--value[= ](?=[^\n|;&]{0,260}--type[= ]SecureString\b))" + _VALUE
        ),
    ),
    (
        ("net user", "rabbitmqctl"),
        (),
        late(
            r"\b(?:net user [^\s/]{1,60}|rabbitmqctl (?:add_user|change_password) \S{1,60})"
            r"[ \t]{1,4}(?!/)" + _VALUE
        ),
    ),
    (
        ("cargo login", "pypi-token", "http-basic"),
        (),
        late(
            r"\b(?:cargo login(?: --registry \S{1,40})?|poetry config pypi-token\.[\w-]{1,40}"
            r"|poetry config http-basic\.[\w-]{1,40} \S{1,60})[ \t]{1,4}" + _VALUE
        ),
    ),
    (
        ("log in as", "login as", "logged in as", "sign in as", "signed in as"),
        (),
        late(
            r"(?i:\b(?:log|logged|sign|signed) ?in as \S{1,60} (?:with|using) )"
            r"[\"'`]?(?=[^\s]{0,40}[0-9])(?=[^\s]{0,40}[A-Za-z])([^\s\"'`\\]{7,128}[^\s\"'`\\.,;])"
        ),
    ),
    (
        ("curl ",),
        ("-b", "--cookie"),
        late(r"\bcurl\b[^\n|;&]{0,200}?\s(?:-b|--cookie)[ =][\"']?[\w.-]{1,60}=" + _VALUE),
    ),
    (("lftp ",), ("-u",), late(r"\blftp\b[^\n|;&]{0,80}?\s-u[ \t]{0,4}[^\s,]{1,60}," + _VALUE)),
    (("cqlsh",), ("-p",), late(r"\bcqlsh\b[^\n|;&]{0,120}?\s-p[ \t]{1,4}" + _VALUE)),
    (("sudo -s",), ("<<<",), late(r"\bsudo -S\b[^\n|;&<]{0,40}<<<[ \t]{0,4}" + _VALUE)),
    (("@tcp(", "@unix("), (), late(r"\b[\w.-]{1,60}:([^\s:@/\"']{4,128})@(?:tcp|unix)\(")),
    (
        (".login(", ".authenticate("),
        (),
        late(r"\.(?:login|authenticate)\([ ]?[\"'][^\"'\n]{1,80}[\"'],[ ]?" + _LITERAL),
    ),
    (
        ("app password", "app-password", "app-specific"),
        (),
        late(
            r"(?i:app(?:-specific)?[- ]password)[ \t]{0,4}(?:is|[:=])?[ \t]{1,4}[\"'`]?"
            r"((?:[a-z]{4} ){3}[a-z]{4})(?![a-z])"
        ),
    ),
    (
        ("app password", "application password"),
        (),
        late(
            r"(?i:app(?:lication)? password)[ \t]{0,4}(?:is|[:=])?[ \t]{1,4}[\"'`]?"
            r"(?=[A-Za-z ]{0,28}[0-9])((?:[A-Za-z0-9]{4} ){5}[A-Za-z0-9]{4})(?![A-Za-z0-9])"
        ),
    ),
    (
        ("net use",),
        (),
        late(r"(?i:\bnet use\b[^\n|;&]{0,160}?\s/u(?:ser)?:\S{1,80})[ \t]{1,4}(?!/)" + _VALUE),
    ),
    (
        ("net use",),
        (),
        late(
            r"(?i:\bnet use [a-z*]:? \\\\\S{1,160})[ \t]{1,4}(?!/)"
            + _VALUE
            + r"(?=[ \t]{1,4}/[Uu])"
        ),
    ),
    (
        ("totp", "2fa", "mfa"),
        (),
        late(
            r"(?i:\b(?:totp|2fa|mfa)[ _-]?(?:seed|key))(?: is|:|=)?[ \t\"'`]{0,3}"
            r"([A-Z2-7]{16,64})(?![A-Za-z0-9])"
        ),
    ),
    (
        ("wifi:",),
        (),
        late(r"(?i:\bwifi:(?:[tshr]:[^;\n]{0,64};){0,3}p:)((?:\\.|[^;\\\n]){4,64});"),
    ),
    (
        ("bitlocker", "recovery key", "recovery password"),
        (),
        late(r"(?<![0-9-])((?:[0-9]{6}-){7}[0-9]{6})(?![0-9-])"),
    ),
    (
        ("htpasswd",),
        ("-",),
        late(
            r"\bhtpasswd[ \t]{1,4}-\w{0,4}b\w{0,4}(?: -\w{1,4})*[ \t]{1,4}(?:\S{1,120} ){1,2}"
            + _VALUE
        ),
    ),
    (
        ('send "', 'send -- "', "sendline("),
        ("assword", "assphrase"),
        late(
            r"\bexpect\b[^\n]{0,80}(?i:assword|assphrase)[^\n]{0,40}\n[ \t]{0,16}"
            r"(?:send(?: --)? |\w{1,20}\.sendline\()[\"']([^\"'\\\n$]{4,256})"
        ),
    ),
    (("snmp-server",), (), late(r"\bsnmp-server community[ \t]{1,4}" + _VALUE)),
    (
        ("/p:",),
        (),
        late(r"\b(?:xfreerdp|wfreerdp|mstsc|cmdkey)\d?\b[^\n|;&]{0,160}?\s/p:" + _VALUE),
    ),
    (
        ("securestring",),
        (),
        late(r"(?i:ConvertTo-SecureString)(?: -String)?[ \t]{1,4}" + _LITERAL),
    ),
    (
        ("basicauth", "auth=", "auth ="),
        (),
        late(
            r"(?:BasicAuth|DigestAuth|\bauth[ ]?=[ ]?)\([ ]?[\"'][^\"'\n]{1,80}[\"'],[ ]?"
            + _LITERAL
        ),
    ),
    (("password(",), (), late(r"(?i:= ?PASSWORD)\([ ]?" + _LITERAL)),
    (
        ("stdin", "secret put", "secret create", "secrets create", "secrets versions", "chpasswd"),
        ("echo", "printf"),
        late(
            r"\b(?:echo|printf)(?: -n)?[ \t]{1,4}[\"']?"
            r"(?:[\w.-]{1,40}:(?=[^\n|]{4,200}\|[^\n|]{0,9}\bchpasswd))?"
            r"([^\s\"'\\$:<{%-][^\s\"'\\]{5,256})[\"']?[ \t]{0,4}\|[ \t]{0,4}(?:sudo )?"
            r"(?:[^\n|;&]{0,120}-stdin\b|chpasswd\b"
            r"|[^\n|;&]{0,80}\bsecrets? (?:put|create|versions)\b)"
        ),
    ),
    (
        ("azurewebsites.net",),
        (),
        late(r"azurewebsites\.net/[^\s\"'<>]{0,200}[?&]code=([\w=%-]{20,200})"),
    ),
    (
        ("mysql", "mariadb"),
        ("-p",),
        late(
            r"\b(?:mysql\w{0,10}|mariadb\w{0,10})\b[^\n|;&]{0,200}?\s-p([^\s\"'\\=-][^\s\"'\\]{3,12"
            r"0})"
        ),
    ),
    (
        ("sshpass",),
        ("-p",),
        late(r"\bsshpass\s{1,4}-p\s{0,4}[\"']?([^\s\"'\\]{3,120})"),
    ),
    (
        ("redis-cli",),
        ("-a",),
        late(r"\bredis-cli\b[^\n|;&]{0,120}?\s-a\s{1,4}[\"']?([^\s\"'\\]{4,256})"),
    ),
    (
        (
            *(f"{program} login" for program in _LOGIN_PROGRAMS),
            "helm registry",
            "sqlcmd",
            "bcp ",
            "smbclient",
            "ldap",
            "mongo",
        ),
        ("-p", "-P", "-w"),
        late(
            rf"\b(?:(?:{'|'.join(_LOGIN_PROGRAMS)}) login|helm registry login|sqlcmd"
            r"|bcp|ldap\w{3,8}|mongo\w{0,8})"
            r"\b[^\n|;&]{0,160}?\s-(?:p|P|w)\s{1,4}[\"']?([^\s\"'\\-][^\s\"'\\]{3,256})"
        ),
    ),
    (
        ("openssl",),
        ("-pass",),
        late(r"\bopenssl\b[^\n|;&]{0,200}?\s-pass(?:in|out)?\s{1,4}[\"']?pass:([^\s\"'\\]{3,256})"),
    ),
    (
        ("jdbc:oracle",),
        (),
        late(r"jdbc:oracle:\w{2,8}:[\w.$#-]{1,60}/([^\s\"'@]{3,128})@"),
    ),
    (
        ("sqlplus", "sqlldr", "impdp", "expdp"),
        (),
        late(
            r"\b(?:sqlplus|sqlldr|impdp|expdp)\b(?:\s-\w{1,4})*\s{1,4}[\w.$#-]{1,60}/([^\s\"'@/]{3,128})@"
        ),
    ),
    (
        ("requirepass", "masterauth"),
        (),
        late(r"\b(?:requirepass|masterauth)\s{1,4}[\"']?([^\s\"'\\]{4,256})"),
    ),
    (
        ("identified ", "password "),
        (),
        late(
            r"\b(?i:identified (?:with \w{3,40} )?by|(?:with "
            r"|encrypted )password)\s{1,4}\\?[\"']([^\"'\\\n]{3,256})"
        ),
    ),
)


_COMMAND_HINTS: Final = frozenset(hint for hints, _, _ in _COMMANDS for hint in hints)
_BY_HINT: Final[dict[str, tuple[int, ...]]] = {
    hint: tuple(number for number, (hints, _, _) in enumerate(_COMMANDS) if hint in hints)
    for hint in _COMMAND_HINTS
}


def command_lines(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Passwords given to programs as options or statements."""
    if not _USER_HINTS.isdisjoint(seen):
        for found in _USER_OPTION.finditer(text):
            user, password = found[1], found[2]
            if not wanted(password) or (user.isdigit() and password.isdigit()):
                continue
            plain = password.isalpha() and password.islower()
            if plain and not re.search(
                r"curl|http|wget|api",
                lower_same_length(text[max(0, found.start() - 200) : found.end() + 80]),
            ):
                continue
            if user.startswith(("http", "$")) or password.startswith("//"):
                continue
            yield Hit(*found.span(2), "cli-credential", Severity.CREDENTIAL, 1)
    if seen.isdisjoint(_COMMAND_HINTS):
        return
    for number in sorted({number for hint in seen for number in _BY_HINT.get(hint, ())}):
        _, also, pattern = _COMMANDS[number]
        if also and not any([word in text for word in also]):
            continue
        for found in pattern.finditer(text):
            if wanted(found[1]):
                yield Hit(*found.span(1), "cli-credential", Severity.CREDENTIAL, 1)


AS_WRITTEN: Final = frozenset({"http ", "https "})
"""Hints that nothing is read for where they stand in capitals: ``HTTP 404`` is no command."""
STARTERS: Final = _USER_HINTS | _COMMAND_HINTS
"""Without one of these the reader above finds nothing."""
