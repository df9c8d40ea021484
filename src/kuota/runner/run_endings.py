# SPDX-License-Identifier: Apache-2.0
"""Determines how a run ended, and whether its container or a disruption ended it.

A disruption ends the process together with everything that could have seen it end: the machine
restarted, or process, shim and runner were killed. That says nothing about the container. A run
that Kuota was told to stop is not disrupted, and neither is one whose end was seen.
"""

from __future__ import annotations

import contextlib
import signal

import msgspec

from .pod_steps import ContainerRun
from .processes import Process, ShimState
from .shim import NEVER_RELEASED
from .shortage import TEMPORARY
from .start_failures import EXIT_NOT_STARTED, start_exit_code, start_failure

FAILED = "failed.json"
"""Records in the directory of a run why it failed before it started."""
NEVER_RAN = "NeverRan"
MACHINE_RESTARTED, PROCESSES_KILLED = "MachineRestarted", "ProcessesKilled"
_EXIT_UNKNOWN = 137
_UNKNOWN = "ContainerStatusUnknown"
_SHUTDOWN = (signal.SIGTERM, signal.SIGKILL)
"""Signals with which a machine that shuts down ends its processes."""


class RunEnding(msgspec.Struct, frozen=True):
    """How a run ended. `disruption` is the reason of the disruption that ended it, or ""."""

    code: int
    reason: str = ""
    message: str = ""
    disruption: str = ""


def run_of(
    process: Process, attempt: int, streak: int, began: float | None, at: float
) -> ContainerRun:
    """The run of a process. `at` is when it ended, if it has."""
    state = process.state
    if not process.ended:
        return ContainerRun(attempt=attempt, streak=streak, started=began)
    ending = _never_started(process.folder) if state is None else _ending(process, state)
    return ContainerRun(
        attempt=attempt,
        streak=streak,
        started=began,
        finished=at,
        code=ending.code,
        signal=state.signal if state else 0,
        reason=ending.reason,
        message=ending.message,
        disruption=ending.disruption,
    )


def _ending(process: Process, state: ShimState) -> RunEnding:
    """The end of a run that its shim has reported."""
    if state.errno in TEMPORARY:
        return RunEnding(EXIT_NOT_STARTED, NEVER_RAN)
    if state.errno:
        kept = process.settings()
        message = start_failure(kept.program, kept.folder, state.stage, state.errno)
        code = start_exit_code(state.stage, state.errno)
        return RunEnding(code, "StartError", message)
    if process.exit_code == 128 + NEVER_RELEASED and state.adopted:
        return RunEnding(EXIT_NOT_STARTED, NEVER_RAN)
    if process.exit_code is None:
        return _lost(process, state)
    if state.oom and process.exit_code:
        return RunEnding(process.exit_code, "OOMKilled")
    if state.signal in _SHUTDOWN and process.rebooted and not process.asked_to_stop:
        message = f"signal {state.signal} ended the container before the machine restarted"
        return RunEnding(process.exit_code, "", message, MACHINE_RESTARTED)
    return RunEnding(process.exit_code)


def _lost(process: Process, state: ShimState) -> RunEnding:
    """The end of a run whose exit code nobody has seen."""
    if process.asked_to_stop:
        message = "the container was told to stop, and its exit code is lost"
        return RunEnding(_EXIT_UNKNOWN, _UNKNOWN, message)
    if process.rebooted:
        message = "the machine restarted while the container ran"
        return RunEnding(_EXIT_UNKNOWN, _UNKNOWN, message, MACHINE_RESTARTED)
    if state.gone:
        message = "the process and its shim were killed together, and its exit code is lost"
        return RunEnding(_EXIT_UNKNOWN, _UNKNOWN, message, PROCESSES_KILLED)
    # The process ran on, but an old kernel does not tell others than the parent how it ended.
    return RunEnding(_EXIT_UNKNOWN, _UNKNOWN, "its shim was killed, and its exit code is lost")


def _never_started(folder: str) -> RunEnding:
    """The end of a run without a process: one that failed, or whose shim reported nothing."""
    path = f"{folder}/{FAILED}"
    with contextlib.suppress(OSError, msgspec.DecodeError), open(path, "rb") as file:
        reason, message = msgspec.json.decode(file.read(), type=tuple[str, str])
        code = _EXIT_UNKNOWN if reason == _UNKNOWN else EXIT_NOT_STARTED
        return RunEnding(code, reason, message)
    with contextlib.suppress(OSError):
        with open(folder + "/shim.err", errors="replace") as file:
            said = file.read().strip()
        if said:
            return RunEnding(EXIT_NOT_STARTED, "StartError", said.splitlines()[-1])
    return RunEnding(EXIT_NOT_STARTED, NEVER_RAN)
