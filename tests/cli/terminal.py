# SPDX-License-Identifier: Apache-2.0
"""A terminal that runs `kuota`: its screen, and keys that a user presses."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from hang import HANG_S

CTRL_C = b"\x03"
# Makes the terminal that it has as standard input its own, so that keys become signals.
_OWN = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """Runs one command. `shown` is all that it wrote so far."""

    def __init__(self, *command: str, folder: Path, env: Mapping[str, str]) -> None:
        self._screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=env,
        )
        os.close(theirs)
        self.shown = ""
        self._seen = 0
        # A character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def expect(self, text: str) -> None:
        """Read until the text is on the screen, after what was expected before."""
        until = time.monotonic() + HANG_S
        while (at := self.shown.find(text, self._seen)) < 0:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} does not come: {self.shown!r}"
            assert self._read(left), f"it ended without {text!r}: {self.shown!r}"
        self._seen = at + len(text)

    def press(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def ended(self) -> int:
        """The exit status, once the command has shown its last words."""
        while self._read(HANG_S):
            pass
        return self.process.wait(HANG_S)

    def _read(self, limit_s: float) -> bool:
        """Wait for more on the screen; False when nobody is left who could write."""
        if not select.select([self._screen], [], [], limit_s)[0]:
            return True
        chunk = b""
        with suppress(OSError):  # the last one at the other end has gone
            chunk = os.read(self._screen, 1 << 16)
        self.shown += self._decoder.decode(chunk)
        return bool(chunk)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)
