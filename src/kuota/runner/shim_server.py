# SPDX-License-Identifier: Apache-2.0
"""The server that forks shims, and processes that create the files of pods as their users.

The runner starts it with `python -I -S`. It imports few modules, so that forking is cheap and the
environment of a container cannot change how an interpreter of root starts.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from collections.abc import Callable

from .confine import confine
from .deletion import delete_content
from .pod_files import Refusal, creation_failure, prepare
from .proc import become_user
from .shim import CHUNK, work
from .shortage import is_temporary

SHIM, FILES, DELETE = b"s", b"f", b"d"
"""Requests: fork a shim, create the files of a pod, or delete the content of a directory."""


def serve() -> None:
    """Fork a process for each request on standard input, a socket, until it is closed.

    A request is one byte and descriptors: plan, errors, ready and lock for a shim; plan and result
    for the files of a pod; a plan for a deletion. The response is one byte and the pidfd of the
    process. Forking takes a tenth of the time of starting another interpreter. If the runner was
    killed, an unread response causes an error here.
    """
    line = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Shims are not waited for.
    try:
        while _served(line):
            pass
    except ConnectionError:
        return


def _served(line: socket.socket) -> bool:
    """Handle the next request; False if there are no more."""
    request, fds, _, _ = socket.recv_fds(line, 1, 4)
    if not request:
        return False
    gate_read, gate = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate)
        os.read(
            gate_read, 1
        )  # Shims are not waited for: if it exited now, there would be no pidfd.
        os.close(gate_read)
        _WORK[request](*fds)
    pidfd = os.pidfd_open(pid)
    os.close(gate)
    socket.send_fds(line, [b"p"], [pidfd])
    for fd in (*fds, pidfd, gate_read):
        os.close(fd)
    return True


def _create_files(source: int, result: int) -> None:
    """Create the files of a pod as its user, and exit.

    Writes a marshalled pair to `result`: a message, which is empty on success, and whether the
    failure is permanent.
    """
    try:
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)  # It was the connection to the runner.
        os.setsid()
        plan = marshal.loads(_whole(source))
        if plan["confine"] is not None:
            confine(plan["confine"])
        become_user(plan["uid"], plan["gid"], plan["groups"])
        prepare(plan)
        reason = ("", False)
    except Refusal as fault:
        reason = (str(fault), fault.permanent)
    except OSError as fault:
        reason = creation_failure(fault)
    except BaseException as fault:
        reason = (f"cannot create the files of the pod: {fault!r}", True)
    os.write(result, marshal.dumps(reason))
    os._exit(0)


def _delete(source: int) -> None:
    """Delete the content of the directory that the plan names, and exit."""
    try:
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.setsid()
        delete_content(marshal.loads(_whole(source)))
    finally:
        os._exit(0)


def _become_shim(source: int, errors: int, ready: int, lock: int) -> None:
    """Detach from the server that forked us, do the work, and exit."""
    try:
        for number in (0, 1, 2):  # Descriptor 0 was the connection to the runner.
            os.dup2(errors, number)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in (source, errors, ready, lock):
            os.set_inheritable(fd, False)
        plan = marshal.loads(_whole(source))
        for fd in (source, errors):
            os.close(fd)
        work(plan, ready)
    except BaseException as error:
        # Without a message, the runner starts another shim, which may find what this one lacked.
        if not (isinstance(error, OSError) and is_temporary(error)):
            sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _whole(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, CHUNK):
        parts.append(part)
    return b"".join(parts)


_WORK: dict[bytes, Callable[..., None]] = {
    SHIM: _become_shim,
    FILES: _create_files,
    DELETE: _delete,
}
