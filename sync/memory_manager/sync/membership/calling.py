"""Which device the owner means: by its name, or by the beginning of its id.

The command line asks this before it asks for secrets, the acts ask it again; so this imports
nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_manager.base.errors import InvalidInput, NotFound

MIN_ID_DIGITS: Final = 4
_HINT: Final = "See: memlocket sync devices"


def id_called(active: Mapping[str, str | None], typed: str) -> str:
    """Of these names by hex id, the one id that fits; NotFound for none, InvalidInput for several.

    ``active`` are the devices that are members now.
    """
    wanted = typed.strip()
    found = [
        device
        for device, name in active.items()
        if name == wanted or (len(wanted) >= MIN_ID_DIGITS and device.startswith(wanted.lower()))
    ]
    if not found:
        raise NotFound("No active device has this name or id.", hint=_HINT)
    if len(found) > 1:
        raise InvalidInput("Several devices fit; type more of the id.", field="device", hint=_HINT)
    return found[0]
