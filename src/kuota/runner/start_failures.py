# SPDX-License-Identifier: Apache-2.0
"""Explains why the kernel did not start a command: what failed, why, and what to do."""

from __future__ import annotations

import errno
import os

from .shim import BECOME, BIND, CONFINE, ENTER, EXECUTE

EXIT_NOT_STARTED = 128
"""The exit code of a container that cannot be started, as containerd reports it."""
_EXIT_NOT_EXECUTABLE, _EXIT_NOT_FOUND = 126, 127
_LONGEST = 200
_STAGES = {
    BECOME: "cannot become the user of the pod",
    CONFINE: "cannot be isolated",
    BIND: "cannot be bound to the CPUs of its node",
}


def start_exit_code(stage: int, number: int) -> int:
    """Return the exit code of a command that failed at this stage with this errno.

    If only its program is to blame, it is that of a shell, which `kuota run` exits with.
    """
    if stage != EXECUTE:
        return EXIT_NOT_STARTED
    return _EXIT_NOT_FOUND if number == errno.ENOENT else _EXIT_NOT_EXECUTABLE


def start_failure(program: str, folder: str, stage: int, number: int) -> str:
    """Return the message for a command that failed at this stage with this errno.

    `program` is the first word of the command, and `folder` its working directory. Either may be
    "" if it is not known.
    """
    why = os.strerror(number)
    if number == errno.EACCES:
        why = f"{why} for the user of the pod"
    if stage in _STAGES:
        return f"{_STAGES[stage]}: {why}"
    if stage == ENTER:
        return f"cannot enter or create the working directory{_quoted(folder)}: {why}"
    if number == errno.ENOENT:
        return _not_found(program)
    return f"cannot execute{_quoted(program) or ' its command'}: {why}{_remedy(program, number)}"


def _not_found(program: str) -> str:
    if "/" in program:
        why = "the user of the pod finds no such file, or no interpreter as in its first line"
    else:
        why = "the user of the pod finds it in no folder on its PATH"
    line = "; write its words as separate arguments, or pass it to sh -c" if " " in program else ""
    return f"command{_quoted(program)} not found: {why}{line}"


def _remedy(program: str, number: int) -> str:
    if number == errno.EACCES:
        return "; make it executable (chmod +x), or run it with its interpreter"
    if number == errno.ENOEXEC:
        return "; its first line must name an interpreter, such as #!/bin/sh"
    return ""


def _quoted(text: str) -> str:
    """Return the text in quotes after a space, shortened; "" if it is empty."""
    if not text:
        return ""
    return f" {text!r}" if len(text) <= _LONGEST else f" {text[:_LONGEST]!r}…"
