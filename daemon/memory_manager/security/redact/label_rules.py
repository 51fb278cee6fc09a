"""Which rule a labelled value counts for: what the label says decides, and how the value stands.

Contract: redaction.md 3.
"""

from __future__ import annotations

import re

from memory_manager.security.redact.key_material import is_aws_secret
from memory_manager.security.redact.labels import label_words
from memory_manager.security.redact.result import Severity


def rule_for(text: str, label: str, start: int, value: str, kind: str) -> tuple[str, Severity]:
    """Rule id and severity of a value whose label stands at ``start``."""
    # "private key 0x...": the qualifier may be a word of its own
    words = set(label_words(label)) | set(label_words(text[max(0, start - 10) : start]))
    if "secret" in words or "key" in words:
        aws = (
            "aws" in words
            or {"access", "key"} <= words
            or "aws" in text[max(0, start - 24) : start].lower()
        )
        if is_aws_secret(value) and (aws or {"secret", "key"} <= words):
            return "aws-secret-access-key", Severity.HIGH_RISK
        if "aws" in words and "secret" in words:
            return "aws-secret-access-key", Severity.HIGH_RISK
    if {"aws", "session", "token"} <= words:
        return "aws-session-token", Severity.HIGH_RISK
    if re.fullmatch(r"(?:0x)?[0-9a-fA-F]{64}", value) and (
        "private" in words
        or words & {"eth", "ethereum", "wallet", "deployer"}
        or text[max(0, start - 8) : start].lower().endswith("private ")
    ):
        return "eth-private-key", Severity.HIGH_RISK
    if words & {"private", "preshared"} and re.fullmatch(r"[0-9A-Za-z+/]{42,43}=", value):
        return "wireguard-key", Severity.HIGH_RISK
    if kind == "option":
        return "cli-credential", Severity.CREDENTIAL
    if kind in ("prose", "bare"):
        return "prose-secret", Severity.CREDENTIAL
    if start and text[start - 1] in "?&#":
        return "url-secret", Severity.CREDENTIAL
    return "labelled-secret", Severity.CREDENTIAL
