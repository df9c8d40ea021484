# SPDX-License-Identifier: Apache-2.0
"""A machine that loses power: everything that runs on it dies, and nothing sees another one die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from kuota.runner.run_settings import kept_settings
from up.machine import Machine


def cut_power(machine: Machine) -> None:
    """Kill the control plane and everything that it runs, so that nobody sees another one die."""
    doomed = [machine.pid(), *_processes(str(machine.state).encode())]
    _signal(signal.SIGSTOP, doomed)
    machine.kill()
    _signal(signal.SIGKILL, doomed[1:])


def boot_again(machine: Machine) -> None:
    """Let all runs seem to be of an earlier boot."""
    for path in machine.state.glob("pods/*/runs/*/*/settings"):
        kept = msgspec.structs.replace(kept_settings(str(path.parent)), boot="an-earlier-boot")
        path.write_bytes(msgspec.json.encode(kept))


def _signal(number: int, pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _processes(folder: bytes) -> Iterator[int]:
    """Processes that were started with the folder in their arguments or environment, and shims."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            texts = [(path / name).read_bytes() for name in ("cmdline", "environ")]
            if any(folder + b"/" in text or folder + b"\0" in text for text in texts):
                yield int(path.name)
                parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                if b"kuota.runner.shim" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    yield int(parent)
