"""What only the owner may do: vault, credentials, status, stop (desktop.md 11.4, vault.md 4.2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.auth.scopes import ALL_SCOPES, format_scopes, parse_scopes
from memory_manager.base.errors import InvalidInput
from memory_manager.base.times import rfc3339
from memory_manager.service.status import daemon_status
from memory_manager.vault import audit, credentials
from memory_manager.vault.errors import LockReason
from memory_manager.vault.rows import Attribution
from memory_manager.vault.transaction import Transaction

MAX_PASSPHRASE_CHARACTERS: Final = 1_024
MAX_NAME_CHARACTERS: Final = 128
MAX_FILE_PATH_CHARACTERS: Final = 4_096

_LOCK_REASONS: Final = {
    reason.value: reason for reason in (LockReason.USER, LockReason.IDLE, LockReason.SUSPEND)
}
