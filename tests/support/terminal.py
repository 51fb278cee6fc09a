"""A person at a terminal: a real process on a pseudo-terminal, read and typed into."""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

PATIENCE_SECONDS = 60.0


class Terminal:
    """``expect`` a pattern, then ``type`` a line; ``screen`` is all that was shown so far."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = 100
    ) -> None:
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self._master = master
        self.process = subprocess.Popen(
            command,
            env={**environment, "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""
        self._read_to = 0
        # a read may end inside of a character, and between the two ends of a line
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait for a pattern after what the last one matched.

        Reads end anywhere: a pattern for something of any length has to name what follows it.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            if match := re.compile(pattern).search(self.screen, self._read_to):
                self._read_to = match.end()
                return match
            if time.monotonic() > deadline or not self._read_more():
                raise AssertionError(f"{pattern!r} did not appear; the screen:\n{self.screen}")

    def type(self, line: str) -> None:
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._read_more():
            pass
        return self.process.wait(10)

    def _read_more(self) -> bool:
        readable, _, _ = select.select([self._master], [], [], 0.2)
        if not readable:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            data = b""
        text = self._held + self._decoder.decode(data, final=not data)
        self._held = "\r" if data and text.endswith("\r") else ""
        self.screen += text[: len(text) - len(self._held)].replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        with contextlib.suppress(OSError):
            os.close(self._master)
