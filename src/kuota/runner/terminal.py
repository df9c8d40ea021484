# SPDX-License-Identifier: Apache-2.0
"""The terminal of a container with `tty`, and the process that serves it.

The process copies output to the FIFO `out`, from which the shim writes the log, and input from the
FIFO `in`, and applies the sizes that arrive through the FIFO `size`. A terminal hangs up as soon as
nobody has its other end open. It is not the shim that has it, because a shim can be killed and
replaced, and its container must not notice.

The process ends after both the container's process and the shim that started it have ended. It is
a process of the runner's user, like the shim, so those of the pod cannot stop it. Used by the shim,
so it imports almost nothing.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios
from contextlib import suppress
from typing import NamedTuple

from .proc import start_ticks

OUT, IN, SIZE = "out", "in", "size"
"""The names of the FIFOs in the directory of a run."""
DEFAULT_TERM = "xterm"
"""The value of TERM in a terminal, as container runtimes set it."""
_CHUNK = 1 << 16
_LAST_STEPS = 1024
"""Reads and writes after the container's process has ended. A terminal buffers less than that."""
_SIZE = struct.Struct("2H")


def make_fifos(folder: str, uid: int | None, gid: int, *, stdin: bool, tty: bool) -> None:
    """Create the FIFOs of a run in its directory.

    The container's process opens them itself, as its user, unless it has a terminal.
    """
    for name in (OUT, *((IN,) if stdin else ()), *((SIZE,) if tty else ())):
        os.mkfifo(f"{folder}/{name}", 0o600)
        if uid is not None and not tty:
            os.chown(f"{folder}/{name}", uid, gid)


class Terminal(NamedTuple):
    """Both ends of a terminal: the one that is served, and that of the container."""

    ours: int
    theirs: int


def open_terminal(uid: int | None, gid: int) -> Terminal:
    """A new terminal that belongs to the user, if one is named. Nobody else can open it."""
    ours, theirs = os.openpty()
    if uid is not None:
        os.fchown(theirs, uid, gid)
    os.fchmod(theirs, 0o600)
    return Terminal(ours, theirs)


def size_message(width: int, height: int) -> bytes:
    """What the FIFO `size` receives to set the size of the terminal, in characters."""
    return _SIZE.pack(height, width)


class TerminalServer:
    """The process that serves a terminal, from the point of view of the shim that starts it.

    `container` is a pidfd of the container's process. `finish` says that the shim has nothing more
    to wait for; so does the death of the shim.
    """

    def __init__(self, folder: str, terminal: Terminal, container: int, *, stdin: bool) -> None:
        out = os.open(f"{folder}/{OUT}", os.O_RDWR | os.O_NONBLOCK)
        sizes = os.open(f"{folder}/{SIZE}", os.O_RDWR | os.O_NONBLOCK)
        source = os.open(f"{folder}/{IN}", os.O_RDWR | os.O_NONBLOCK) if stdin else -1
        shim, self._alive = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _close_all_but({*terminal, container, out, sizes, source, shim})
                _serve(terminal, out, source, sizes, {container, shim})
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(0)
        for fd in (out, sizes, shim, *terminal, *((source,) if stdin else ())):
            os.close(fd)
        self.start = start_ticks(self.pid)

    def finish(self) -> None:
        os.close(self._alive)


def _close_all_but(kept: set[int]) -> None:
    """Close what the shim has open: locks and pipes whose end others wait for."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # It was the descriptor that listed the directory.
                os.close(fd)


def _serve(terminal: Terminal, out: int, source: int, sizes: int, alive: set[int]) -> None:
    """Serve the terminal until each of the descriptors `alive` has become readable."""
    os.set_blocking(terminal.ours, False)
    output = _Copy(terminal.ours, out)
    copies = [output, _Copy(source, terminal.ours)] if source >= 0 else [output]
    while alive:
        wanted = dict.fromkeys((sizes, *alive), select.POLLIN)
        for each in copies:
            fd, event = each.awaited()
            wanted[fd] = wanted.get(fd, 0) | event
        alive -= _ready(wanted)
        for each in copies:
            each.advance()
        _resize(terminal.ours, sizes)
    os.set_blocking(out, True)
    for _ in range(_LAST_STEPS):
        if not output.advance():
            return


def _ready(wanted: dict[int, int]) -> set[int]:
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    return {fd for fd, _ in poll.poll()}


def _resize(terminal: int, sizes: int) -> None:
    """Apply the last of the sizes that have arrived."""
    try:
        messages = os.read(sizes, _SIZE.size * 1024)
    except BlockingIOError:
        return
    height, width = _SIZE.unpack(messages[-_SIZE.size :])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", height, width, 0, 0))


class _Copy:
    """Copies from one descriptor to another. Reads no more before everything is written."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._pending = b""

    def awaited(self) -> tuple[int, int]:
        """The descriptor that must be ready for the next step, and the event of `poll`."""
        if self._pending:
            return self._target, select.POLLOUT
        return self._source, select.POLLIN

    def advance(self) -> bool:
        """Read or write once. False if that is not possible yet."""
        try:
            if self._pending:
                self._pending = self._pending[os.write(self._target, self._pending) :]
            else:
                self._pending = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return False
        return True
