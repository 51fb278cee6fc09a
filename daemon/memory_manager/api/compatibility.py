"""What public clients expect to talk to: names, addresses and the one compatible version.

Contract: xmemo.md 7. The product's own version stands in ``server`` of the discovery documents.
"""

from __future__ import annotations

from typing import Final

COMPATIBLE_VERSION: Final = "0.4.0"
SERVICE_NAME: Final = "memory-os"
TOKEN_VARIABLE: Final = "XMEMO_KEY"  # noqa: S105 - a name of an environment variable
PROTECTED_RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER_PATH: Final = "/.well-known/oauth-authorization-server"
