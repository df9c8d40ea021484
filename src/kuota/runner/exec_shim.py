# SPDX-License-Identifier: Apache-2.0
"""The parent process of one command that `kubectl exec` runs in a container.

The runner starts one interpreter per command, with `python -I -S`. The command becomes the same
user, in the same directory, environment and cgroup, by the same code as the container's own
process. It ends with whichever comes first: its own exit, the end of the container, or the end of
the connection to the runner, which closes when the client disconnects and when the runner dies.
Whatever it has started ends with it.

Descriptors: 0 is the connection to the runner, 3 the plan, and 4 to 6 the standard streams.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
from contextlib import suppress
from typing import Any

from .proc import become_subreaper, start_ticks
from .shim import IGNORED, become_process, join_cgroup, kill_group, kill_orphans

CONTROL, PLAN, STDIO = 0, 3, 4
EXITED, REJECTED, NO_CGROUP = b"exited", b"rejected", b"cgroup"
"""The kinds of reports: an exit code; an errno and the stage of `shim`; an errno."""


def main() -> None:
    """Run the command of the plan, report its end, and exit."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    become_subreaper()
    control = socket.socket(fileno=CONTROL)
    for fd in range(PLAN, STDIO + 3):
        with suppress(OSError):
            os.set_inheritable(fd, False)
    with os.fdopen(PLAN, "rb") as file:
        plan: dict[str, Any] = marshal.loads(file.read())
    report = _ran(plan, control)
    kill_orphans()
    if report:
        control.sendall(report)
    os._exit(0)


def _ran(plan: dict[str, Any], control: socket.socket) -> bytes:
    """Run the command; returns a report, or b"" if it was ended."""
    container = _container(plan)
    if container < 0:
        return b""
    gate_read, gate = os.pipe()
    verdict, verdict_write = os.pipe()
    stdio = tuple(STDIO + at if used else -1 for at, used in enumerate(plan["stdio"]))
    pid = os.fork()
    if pid == 0:
        os.close(gate)
        become_process(plan, gate_read, verdict_write, (stdio[0], stdio[1], stdio[2]))
    for fd in (gate_read, verdict_write, *(each for each in stdio if each >= 0)):
        os.close(fd)
    fault = join_cgroup(plan["cgroup"], pid)
    if fault:
        os.close(gate)
        return b"%b %d" % (NO_CGROUP, fault)
    os.write(gate, b"g")
    os.close(gate)
    rejected = os.read(verdict, 16)
    if rejected:
        return b"%b %b" % (REJECTED, rejected)
    return _awaited(pid, container, control)


def _container(plan: dict[str, Any]) -> int:
    """A pidfd of the container's process; -1 if it has ended."""
    try:
        pidfd = os.pidfd_open(plan["container_pid"])
    except OSError:
        return -1
    return pidfd if start_ticks(plan["container_pid"]) == plan["container_start"] else -1


def _awaited(pid: int, container: int, control: socket.socket) -> bytes:
    """Wait for the first end. Returns a report if it is that of the command."""
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (pidfd, container, control.fileno()):
        poll.register(fd, select.POLLIN)
    ended = {fd for fd, _ in poll.poll()}
    status = None
    if pidfd in ended:
        status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    kill_group(pid)
    if status is None:
        return b""
    killed = status.si_code != os.CLD_EXITED
    return b"%b %d" % (EXITED, status.si_status + (128 if killed else 0))
