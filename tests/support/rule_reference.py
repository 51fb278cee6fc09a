"""Prints the reference of all rules as a Markdown table, from the registry itself.

python tests/support/rule_reference.py > rules.md
"""

from __future__ import annotations

from memory_manager.security.redact.ids import DETECTOR_IDS, OVERSIZE, RETIRED_IDS, WITHHELD
from memory_manager.security.redact.rules import RULES
from memory_manager.security.redact.ruleset import RULESET_VERSION


def rule_reference() -> str:
    """One line a rule: id, severity, what announces it, since which version."""
    lines = [f"Rule set {RULESET_VERSION}, {len(RULES)} rules.", ""]
    lines += ["| Id | Severity | Announced by | Since |", "|---|---|---|---|"]
    for rule in sorted(RULES, key=lambda rule: rule.id):
        anchors = " ".join(f"`{anchor.replace('|', chr(92) + '|')}`" for anchor in rule.anchors)
        lines.append(f"| {rule.id} | {rule.severity} | {anchors} | {rule.since} |")
    others = sorted({*DETECTOR_IDS, OVERSIZE, WITHHELD})
    lines += ["", "Found by structure or label: " + ", ".join(others) + "."]
    if RETIRED_IDS:
        lines += ["", "Retired, still valid in marks: " + ", ".join(RETIRED_IDS) + "."]
    return "\n".join(lines)


if __name__ == "__main__":
    print(rule_reference())
