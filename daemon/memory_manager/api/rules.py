"""What the checks must know of a route before its handler runs."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from memory_manager.api.calls import Access

MAX_BODY_BYTES: Final = 1 << 20


class BodyType(enum.Enum):
    """Which bodies a route takes; a body of no bytes is always fine."""

    JSON = "json"
    FORM = "form"  # of a page
    FORM_OR_JSON = "form_or_json"  # token requests of OAuth clients


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """``limited``: the route counts for the rate limit."""

    access: Access
    max_body_bytes: int = MAX_BODY_BYTES
    body_type: BodyType = BodyType.JSON
    limited: bool = True


OWNER_ONLY: Final = Rule(Access.OWNER)
