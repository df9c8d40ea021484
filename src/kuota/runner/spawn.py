# SPDX-License-Identifier: Apache-2.0
"""Starts shims, each with a plan, a lock and a pipe, and processes that create files of pods.

Shims are forked by a small server, which is started when first needed and restarted if it was
killed. It has an empty environment, because the environment of a container could change how an
interpreter starts, and that interpreter may be root. It has its own session, and ends with this
process.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import resource
import socket
import sys
from typing import Any

from .shim_server import DELETE, FILES, SHIM

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The server raises its own limit of open files later. Containers keep the one they had before.
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
_BOOT = (
    f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, {_OPEN_FILES}); "
    f"sys.path.append({SOURCE!r}); from kuota.runner.shim_server import serve; serve()"
)
_TRIES = 3


class ShimStarter:
    """The connection to the server that forks shims. `close` ends the server, but no shim."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._server = 0

    def start(self, folder: str, plan: dict[str, Any], lock: int) -> tuple[int, int]:
        """Start a shim in the directory.

        Returns its pidfd, and a pipe that closes at its first report. Raises InterruptedError if
        the server died and may or may not have started the shim. In that case, close the lock and
        check whether another process holds it.
        """
        source = memory_file(marshal.dumps(plan))
        errors = os.open(folder + "/shim.err", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        ready, ready_write = os.pipe()
        try:
            pidfd = self._ask(SHIM, [source, errors, ready_write, lock])
        except BaseException:
            os.close(ready)
            raise
        finally:
            for fd in (source, errors, ready_write):
                os.close(fd)
        return pidfd, ready

    def create_files(self, plan: dict[str, Any]) -> tuple[int, int]:
        """Start a process that creates the files of a pod (`pod_files`).

        Returns its pidfd, and a pipe that closes when it is done. See `shim_server` for what the
        pipe contains. Raises InterruptedError if the server died; the request may be repeated.
        """
        source = memory_file(marshal.dumps(plan))
        result, result_write = os.pipe()
        try:
            pidfd = self._ask(FILES, [source, result_write])
        except BaseException:
            os.close(result)
            raise
        finally:
            for fd in (source, result_write):
                os.close(fd)
        return pidfd, result

    def delete_content(self, folder: str) -> None:
        """Start a process that deletes everything in the directory (`deletion`).

        If the server dies meanwhile, the content remains until the next call.
        """
        source = memory_file(marshal.dumps(folder))
        try:
            os.close(self._ask(DELETE, [source]))
        except InterruptedError:
            return
        finally:
            os.close(source)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
            os.waitpid(self._server, 0)

    def _ask(self, request: bytes, fds: list[int]) -> int:
        line = self._sent(request, fds)
        try:
            _, (pidfd, *_), _, _ = socket.recv_fds(line, 1, 1)
        except (OSError, ValueError):
            self.close()
            raise InterruptedError("the server of shims died") from None
        return pidfd

    def _sent(self, request: bytes, fds: list[int]) -> socket.socket:
        """Send the request, to a new server if the old one is gone."""
        for _ in range(_TRIES):
            line = self._line or self._started()
            try:
                socket.send_fds(line, [request], fds)
            except OSError:
                self.close()
            else:
                return line
        raise OSError("the server of shims cannot be started; see its errors above")

    def _started(self) -> socket.socket:
        line, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, "-I", "-S", "-c", _BOOT]
            actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
            self._server = os.posix_spawn(
                sys.executable, argv, {}, file_actions=actions, setsid=True
            )
        self._line = line
        return line


def memory_file(content: bytes) -> int:
    """A file in memory, positioned at its beginning."""
    fd = os.memfd_create("plan")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def take_lock(folder: str) -> int | None:
    """The lock of the directory; None while a running shim holds it."""
    fd = os.open(folder + "/lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
