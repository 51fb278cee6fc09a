"""What the checks must know of a route before its handler runs."""

from __future__ import annotations

import dataclasses
from typing import Final

from memory_manager.api.calls import Access

MAX_BODY_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    access: Access
    max_body_bytes: int = MAX_BODY_BYTES


OWNER_ONLY: Final = Rule(Access.OWNER)
