# SPDX-License-Identifier: Apache-2.0
"""The file in which a shim records the state of its run. Imports almost nothing, like the shim.

The space for it is allocated before the process starts, so that its end can be recorded on a full
disk: two files of a fixed size are overwritten and exchanged in turn.
"""

from __future__ import annotations

import ctypes
import os
import time

from .proc import start_ticks

_BYTES = 1024
_HERE, _EXCHANGE = -100, 2
_RETRY_S = 0.5


def moment(name: str) -> dict[str, float]:
    """The current time: in seconds since 1970, and since the machine booted.

    The former may jump, so durations are measured with the latter.
    """
    return {name: time.time(), f"{name}Up": time.clock_gettime(time.CLOCK_BOOTTIME)}


class RunState:
    """The file `state`: numbers by name, replaced atomically. Until a pid is in it, nothing ran.

    Raises OSError if there is no space for it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = folder + "/state"
        self._spare = self._path + ".new"
        self._numbers: dict[str, float] = {
            "shim": os.getpid(),
            "shimStart": start_ticks(os.getpid()),
        }
        if not os.path.exists(self._path):
            self.write()
            self._overwrite(b"")

    def write(self, **numbers: float) -> None:
        """Set these numbers. Raises OSError."""
        self._numbers.update(numbers)
        text = ", ".join(f'"{name}": {value!r}' for name, value in self._numbers.items())
        self._overwrite(f"{{{text}}}".encode())
        if not _exchanged(self._spare, self._path):
            os.rename(self._spare, self._path)

    def finish(self, **numbers: float) -> None:
        """Set the last numbers, which must not be lost: wait until the disk accepts them."""
        while os.path.isdir(self._folder):
            try:
                self.write(**numbers)
            except OSError:
                time.sleep(_RETRY_S)
            else:
                return

    def _overwrite(self, text: bytes) -> None:
        fd = os.open(self._spare, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Spaces, because JSON permits them after a value.
            if os.pwrite(fd, text.ljust(_BYTES - 1) + b"\n", 0) < _BYTES:
                raise OSError(28, "No space left on device", self._spare)
        finally:
            os.close(fd)


def _exchanged(one: str, other: str) -> bool:
    """Exchange two files atomically. False if the system cannot do this."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    return bool(0 == rename(_HERE, one.encode(), _HERE, other.encode(), _EXCHANGE))
