"""The registry: every self-announcing credential shape as data. Contract: redaction.md 4 and 13.

Written in our own words; many shapes were learnt from the public catalogues of gitleaks,
Betterleaks and Kingfisher and from the vendors' documentation.
"""

from __future__ import annotations

from memory_manager.security.redact.rule import Rule
from memory_manager.security.redact.rules import (
    ai,
    cloud,
    code_hosting,
    payments,
    platforms_a_k,
    platforms_l_z,
    saas,
    services,
    tokens,
    wallets,
    webhooks,
)

RULES: tuple[Rule, ...] = (
    *code_hosting.RULES,
    *cloud.RULES,
    *ai.RULES,
    *services.RULES,
    *saas.RULES,
    *payments.RULES,
    *platforms_a_k.RULES,
    *platforms_l_z.RULES,
    *wallets.RULES,
    *webhooks.RULES,
    *tokens.RULES,
)
