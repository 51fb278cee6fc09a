"""Secret keys of chains and signing tools that have a prefix. Contract: redaction.md 13.5."""

from __future__ import annotations

from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "minisign-secret-key",
        ("rwrty0iy",),
        r"RWRTY0Iy[0-9A-Za-z+/]{100,}={0,2}",
        Severity.HIGH_RISK,
        window=600,
        since="2",
    ),
    Rule(
        "tor-secret-key",
        ("pt0gzwqynte5djetc2vjcmv0",),
        r"PT0gZWQyNTUxOXYxLXNlY3JldD[0-9A-Za-z+/]{60,}={0,2}",
        Severity.HIGH_RISK,
        since="2",
    ),
    Rule(
        "near-secret-key",
        ("ed25519:",),
        r"ed25519:[1-9A-HJ-NP-Za-km-z]{80,90}",
        Severity.HIGH_RISK,
        since="2",
    ),
    Rule(
        "tezos-secret-key",
        ("edsk",),
        r"edsk[1-9A-HJ-NP-Za-km-z]{50,94}",
        Severity.HIGH_RISK,
        validator="mixed",
        since="2",
    ),
    Rule(
        "sui-secret-key",
        ("suiprivkey1",),
        r"suiprivkey1[0-9a-z]{50,}",
        Severity.HIGH_RISK,
        since="2",
    ),
    Rule(
        "cardano-secret-key",
        ("ed25519_sk1", "ed25519e_sk1", "addr_xsk1", "root_xsk1", "xprv1"),
        r"(?:ed25519e?_sk1|[a-z]{4,5}_xsk1|xprv1)[0-9a-z]{50,}",
        Severity.HIGH_RISK,
        since="2",
    ),
)
