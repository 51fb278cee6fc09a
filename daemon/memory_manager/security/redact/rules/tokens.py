"""Shapes of redaction.md 13.5 that announce themselves: structured tokens and key material.

Armoured blocks, word lists and checksummed keys without a literal are found in ``key_material``.
"""

from __future__ import annotations

from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "jwt",
        ("eyj",),
        r"eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{4,}(?:\.[0-9A-Za-z_-]*)?",
        window=8192,
    ),
    Rule(
        "jwe",
        ("eyj",),
        r"eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-"
        r"]{8,}",
        window=8192,
    ),
    Rule(
        "jws-any-payload",
        ("eyj",),
        r"eyJ[0-9A-Za-z_-]{14,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{20,}",
        validator="jose_header",
        window=8192,
    ),
    Rule(
        "paseto",
        ("v1.", "v2.", "v3.", "v4."),
        r"v[1-4]\.(?:local|public)\.[0-9A-Za-z_-]{30,}(?:\.[0-9A-Za-z_-]+)?",
        window=2400,
    ),
    Rule(
        "age-key",
        ("age-secret-key-",),
        r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{40,}",
        Severity.HIGH_RISK,
        window=4096,
    ),
    Rule(
        "age-key",
        ("age-secret-key-",),
        r"age-secret-key-(?:pq-)?1[0-9a-z]{40,}",
        Severity.HIGH_RISK,
        window=4096,
    ),
    Rule(
        "bip32-xprv",
        ("xprv", "yprv", "zprv", "tprv", "uprv", "vprv"),
        r"[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{90,}",
        Severity.HIGH_RISK,
    ),
    Rule(
        "otpauth",
        ("otpauth://",),
        r"(?i:otpauth://[^\s\"'<>]{0,300}?[?&]secret=)([A-Za-z2-7%=]{8,})",
        group=1,
        window=700,
    ),
    Rule("nostr-secret-key", ("nsec1",), r"nsec1[0-9a-z]{58}"),
    Rule(
        "amz-signature",
        (
            "x-amz-signature=",
            "x-amz-security-token=",
            "x-goog-signature=",
            "x-oss-signature=",
            "x-cos-signature=",
        ),
        r"(?i:x-(?:amz|goog|oss|cos)-(?:signature|security-token)=)([0-9A-Za-z%+/=_-]{16,})",
        group=1,
        window=2400,
    ),
    Rule(
        "sas-signature",
        ("sig=",),
        r"(?i:[?&]sig=)([0-9A-Za-z%+/=_-]{20,})",
        group=1,
        lead=1,
        window=400,
    ),
    Rule(
        "cloudfront-signature",
        ("signature=",),
        r"(?i:[?&]signature=)([0-9A-Za-z%+/=_~-]{20,})",
        group=1,
        lead=1,
        window=800,
    ),
    Rule(
        "npmrc-auth",
        (":_authtoken", ":_auth", ":_password"),
        r"(?i::_(?:authToken|auth|password))=([0-9A-Za-z+/=_.-]{8,})",
        group=1,
        validator="not_placeholder",
    ),
    Rule(
        "prefixed-token",
        tuple(
            "token_ token- tok_ tok- secret_ secret- apikey_ apikey- apitoken_ apitoken- pat_ pat- "
            "cred_ cred- priv_ priv-".split()
        ),
        r"(?:[Tt]oken|TOKEN|tok|[Ss]ecret|SECRET|[Aa]pi[Kk]ey|APIKEY|api[Tt]oken|pat|cred|priv)[_-]"
        r"(?:live_|test_|prod_)?[0-9a-f]{32,128}",
        validator="lone_word",
        since="4",
    ),
)
