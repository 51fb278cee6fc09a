"""A device in a process of its own that does one round; tests kill it in the middle.

python sync_child.py FOLDER
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from sync_devices import SyncDevice
from vault_harness import VaultHome


async def one_round(root: Path) -> None:
    device = await SyncDevice(VaultHome(root)).open()
    said = await device.sync.sync_now()
    await device.close()
    print(said["state"], said["outbox"], flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    asyncio.run(one_round(Path(sys.argv[1])))
