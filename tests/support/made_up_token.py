"""One made-up credential for tests that only need something to be taken out."""

from __future__ import annotations

import random
import string


def token_of(seed: int | str) -> str:
    """Shaped like a source-code host's token, made at run time."""
    alphabet = string.ascii_letters + string.digits
    return "gh" + "p_" + "".join(random.Random(seed).choices(alphabet, k=36))
