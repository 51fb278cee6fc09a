"""The version of the rule set, stored on every row.

Raise it with any change of a rule, validator or word list; a test compares a digest of them.
"""

from __future__ import annotations

from typing import Final

RULESET_VERSION: Final = "6"
