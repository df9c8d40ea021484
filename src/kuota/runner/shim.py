# SPDX-License-Identifier: Apache-2.0
"""The parent process of one container: starts it, writes its log, and records how it ended.

A shim is independent: it imports few modules and needs no other process after its start, so the
runner can restart at any time. Shims are forked by `shim_server`. The plan arrives through a
descriptor and is never on disk, because it contains the environment. The shim reports everything
through the file `state`, which is always complete. The runner reads it when the pipe `ready` is
closed and when the shim exits.

Two rules ensure consistency. The process may run only after its pid is on disk: it waits at a gate,
and if the shim dies first, it dies by a signal that says so. So every running process can be found
again. The end is recorded only after all descendants have ended, including orphans. So a run that
is reported as ended holds no device. The shim keeps a lock from the runner for its whole life, so
that a shim that has not written its state yet is not mistaken for one that never started.

The log is a FIFO that the process itself keeps open, so that writing to it never fails; without a
reader, it blocks. If a shim is killed, another one is started to `adopt` the process: it continues
the log, and asks the kernel for the exit code, which older kernels do not know. A container with a
terminal writes to the FIFO through the process that serves the terminal (`terminal`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import termios
import time

# `os.execvpe` imports it when called. By then the user may be unable to read Python's files.
import warnings  # noqa: F401
from typing import Any

from .confine import LANDLOCK, confine
from .proc import (
    become_subreaper,
    become_user,
    children,
    die_with_parent,
    exit_status,
    start_ticks,
    sweep,
)
from .run_state import RunState, moment
from .shim_log import Log
from .terminal import TerminalServer, open_terminal

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
CHANGED = (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python handles specially; the child must use the defaults."""
CHUNK = 1 << 16
NEVER_RELEASED = int(signal.SIGRTMAX)
"""The signal with which a process ends whose shim died before it let the process run."""
_TERMINAL_S = 5.0
"""How long the server of a terminal may copy the last output, which usually takes milliseconds."""
BECOME, ENTER, EXECUTE, CONFINE, BIND = 1, 2, 3, 4, 5
"""The step that failed: switch to the user, enter the directory, execute, isolate, bind to CPUs."""


def work(plan: dict[str, Any], ready: int) -> None:
    """Carry out the plan. Closing `ready` signals that the state has changed."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    state = RunState(plan["dir"])
    log = Log(plan["log"], plan["log_bytes"], plan["log_files"])
    # Open for writing too: without any writer, polling would report end-of-file endlessly.
    source = os.open(plan["fifo"], os.O_RDWR | os.O_NONBLOCK)
    become_subreaper()
    if "adopt" in plan:
        _adopt(plan["adopt"], plan, state, source, log, ready)
    else:
        _run(plan, state, source, log, ready)


def _run(plan: dict[str, Any], state: RunState, source: int, log: Log, ready: int) -> None:
    gate_read, gate = os.pipe()
    verdict, verdict_write = os.pipe()
    terminal = open_terminal(plan["uid"], plan["gid"]) if plan["tty"] else None
    stdio = _stdio(plan) if terminal is None else (terminal.theirs,) * 3
    pid = os.fork()
    if pid == 0:
        os.close(gate)
        become_process(plan, gate_read, verdict_write, stdio)
    os.close(gate_read)
    os.close(verdict_write)
    pidfd = os.pidfd_open(pid)
    server = None
    if terminal is None:
        for fd in {*stdio} - {-1}:
            os.close(fd)
    else:
        server = TerminalServer(plan["dir"], terminal, pidfd, stdin=plan["stdin"])
    fault = join_cgroup(plan["cgroup"], pid)
    begun = {"pid": pid, "pidStart": start_ticks(pid), **moment("started"), **_numbers(server)}
    state.write(cgroupErrno=fault, **begun)
    os.write(gate, b"g")
    os.close(gate)
    refused = os.read(verdict, 16)
    os.close(verdict)
    if refused:
        os.waitpid(pid, 0)
        _end_terminal(server, source, log)
        why, _, stage = refused.partition(b" ")
        state.finish(errno=int(why), stage=int(stage), **moment("finished"))
        return
    os.close(ready)
    _pump([pidfd], source, log)
    ending = _ended(plan, pid, pidfd, server, source, log)
    state.finish(oom=_oom_kills(plan["cgroup"]), **ending)


def _ended(
    plan: dict[str, Any],
    pid: int,
    pidfd: int,
    server: TerminalServer | None,
    source: int,
    log: Log,
) -> dict[str, float]:
    """End everything that the ended process has left behind. Returns how and when it ended."""
    status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    killed = status is not None and status.si_code != os.CLD_EXITED
    number = 0 if status is None else status.si_status
    if killed and number == signal.SIGTERM:
        known = {pid} if server is None else {pid, server.pid}
        _wait_for_others(known, plan["grace_s"], source, log)
    finished = moment("finished")
    kill_group(pid)  # Before the pid is reaped and could be reused.
    _end_terminal(server, source, log)
    kill_orphans()
    _drain(source, log)
    ending = {"signal": number, "code": 128 + number} if killed else {"signal": 0, "code": number}
    return {**finished, **ending}


def _numbers(server: TerminalServer | None) -> dict[str, float]:
    """What another shim needs to know about the server of the terminal."""
    return {} if server is None else {"terminal": server.pid, "terminalStart": server.start}


def _end_terminal(server: TerminalServer | None, source: int, log: Log) -> None:
    if server is not None:
        server.finish()
        _await_terminal(server.pid, server.start, source, log)
        os.waitpid(server.pid, 0)


def _await_terminal(pid: int, start: int, source: int, log: Log) -> None:
    """Let the server of a terminal copy the rest of the output. Kill it if that takes too long."""
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        return
    until = time.monotonic() + _TERMINAL_S
    if start_ticks(pid) == start and not _pump([pidfd], source, log, until):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def _adopt(
    pid: int, plan: dict[str, Any], state: RunState, source: int, log: Log, ready: int
) -> None:
    """Watch a process that another shim started, if it still exists, then report its end."""
    began, terminal = plan["adopt_start"], plan["terminal"]
    with contextlib.suppress(OSError):  # The end is recorded as soon as there is space.
        state.write(pid=pid, pidStart=began, adopted=1, **plan["started"], **terminal)
    os.close(ready)
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        pidfd = -1
    status = None
    here = pidfd >= 0 and start_ticks(pid) == began
    gone = not here or _has_ended(pidfd)
    if here:
        _pump([pidfd], source, log)
        status = exit_status(pidfd)
    finished = moment("finished")
    swept = sweep(plan["cookie"])
    if terminal:
        _await_terminal(terminal["terminal"], terminal["terminalStart"], source, log)
        swept.add(terminal["terminal"])
    with contextlib.suppress(OSError), open(plan["dir"] + "/swept", "w") as file:
        file.write(" ".join(map(str, swept)))
    _drain(source, log)
    ending = {"lost": 1, "gone": int(gone)} if status is None else _ending(status)
    state.finish(oom=_oom_kills(plan["cgroup"]), **finished, **ending)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _ending(status: int) -> dict[str, float]:
    """Signal and exit code of a wait status."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return {"signal": number, "code": 128 + number if number else os.WEXITSTATUS(status)}


def _stdio(plan: dict[str, Any]) -> tuple[int, int, int]:
    """Standard input, output and error of a container without a terminal; -1 is /dev/null."""
    sink = os.open(plan["fifo"], os.O_RDWR)
    return _stdin(plan) if plan["stdin"] else -1, sink, sink


def _stdin(plan: dict[str, Any]) -> int:
    """The standard input of a container with `stdin`, which `kubectl attach` writes to.

    The process itself keeps it open, so that it does not end if this shim is killed. With
    `stdinOnce`, this shim keeps it open until it receives SIGUSR1, after the first client.
    """
    fifo = plan["dir"] + "/in"
    if not plan["stdin_once"]:
        return os.open(fifo, os.O_RDWR)
    source = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY)
    os.set_blocking(source, True)

    def close(*_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.close(writer)

    signal.signal(signal.SIGUSR1, close)
    return source


def become_process(
    plan: dict[str, Any], gate: int, verdict: int, stdio: tuple[int, int, int]
) -> None:
    """Become a process of the container, with these descriptors; -1 is /dev/null.

    Never returns: on failure it reports the reason and exits.
    """
    stage = BIND
    try:
        os.setsid()
        if os.read(gate, 1) != b"g":
            os.kill(os.getpid(), NEVER_RELEASED)
        _limit(plan)
        stage = CONFINE
        if plan["confine"] is not None:
            confine(_with_output(plan["confine"], "" if plan["tty"] else plan["fifo"]))
        stage = BECOME
        become_user(plan["uid"], plan["gid"], plan["groups"])
        stage = ENTER
        os.makedirs(plan["cwd"], exist_ok=True)
        os.chdir(plan["cwd"])
        stage = EXECUTE
        for number, fd in enumerate(stdio):
            os.dup2(os.open("/dev/null", os.O_RDWR) if fd < 0 else fd, number)
        if plan["tty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in CHANGED:
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        if plan.get("exec"):
            die_with_parent()
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except BaseException as fault:
        why: int = getattr(fault, "errno", None) or errno.EIO
        if stage == EXECUTE and why == errno.EACCES and not _on_path(plan):
            why = errno.ENOENT
        os.write(verdict, b"%d %d" % (why, stage))
    os._exit(127)


def _limit(plan: dict[str, Any]) -> None:
    """Bind this process to CPUs, and limit the processes and threads of its user.

    The latter has no effect on root.
    """
    if plan["cpus"]:
        os.sched_setaffinity(0, plan["cpus"])
    most, hard = plan["most_processes"], resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most and (hard == resource.RLIM_INFINITY or hard > most):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _with_output(plan: dict[str, Any], fifo: str) -> dict[str, Any]:
    """The confinement with access to the output, which a process may open as /dev/stdout."""
    if plan["mode"] != LANDLOCK or not fifo:
        return plan
    return {**plan, "kept": [*plan["kept"], (fifo, True)]}


def _on_path(plan: dict[str, Any]) -> bool:
    """Whether the program exists on the PATH.

    A search reports directories without access as EACCES.
    """
    name = plan["argv"][0]
    folders = plan["env"].get("PATH", os.defpath).split(os.pathsep)
    return "/" in name or any(os.path.exists(f"{each}/{name}") for each in folders)


def _pump(pidfds: list[int], source: int, log: Log, until: float | None = None) -> bool:
    """Copy output to the log until a process has ended; False if the time is up."""
    poll = select.poll()
    for fd in (*pidfds, source):
        poll.register(fd, select.POLLIN)
    while True:
        left_ms = None if until is None else max(0.0, until - time.monotonic()) * 1000
        events = poll.poll(left_ms)
        if not events:
            return False
        for fd, _ in events:
            if fd != source:
                return True
            _carry(source, log)


def _wait_for_others(known: set[int], grace_s: float, source: int, log: Log) -> None:
    """Give the rest of a terminated process group time to end.

    A shell ends immediately on TERM, while its children may still be saving their work.
    """
    until = time.monotonic() + grace_s
    while others := [child for child in children() if child not in known]:
        pidfds = [os.pidfd_open(child) for child in others]
        in_time = _pump(pidfds, source, log, until)
        for fd in pidfds:
            os.close(fd)
        if not in_time:
            return
        for child in others:
            os.waitpid(child, os.WNOHANG)


def _drain(source: int, log: Log) -> None:
    while _carry(source, log):
        pass


def _carry(source: int, log: Log) -> bool:
    """Copy available output to the log; False if there is none.

    If the disk is full, output is lost, but the process continues.
    """
    try:
        chunk = os.read(source, CHUNK)
    except BlockingIOError:
        return False
    with contextlib.suppress(OSError):
        log.write(chunk)
    return bool(chunk)


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def kill_orphans() -> None:
    """Kill and reap every descendant. Each becomes our child when its parent ends."""
    while True:
        for child in children():
            try:
                os.kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def join_cgroup(folder: str, pid: int) -> int:
    if not folder:
        return 0
    try:
        with open(folder + "/cgroup.procs", "w") as file:
            file.write(str(pid))
    except OSError as fault:
        return fault.errno or 5
    return 0


def _oom_kills(folder: str) -> int:
    """The number of processes in the cgroup that the kernel killed because of memory."""
    try:
        with open(folder + "/memory.events") as file:
            counts = dict(line.split() for line in file)
    except (OSError, ValueError):
        return 0
    return int(counts.get("oom_kill", 0))
