# SPDX-License-Identifier: Apache-2.0
"""Reads process information from the kernel. Used by the shim, so it imports almost nothing."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence

PDEATHSIG, SUBREAPER = 1, 36
_INFO_BYTES = 64
_INFO_EXIT = 1 << 3
_GET_INFO = 3 << 30 | _INFO_BYTES << 16 | 0xFF << 8 | 11
"""PIDFD_GET_INFO with the first version of `struct pidfd_info`, whose last field is the status."""


def start_ticks(pid: int) -> int:
    """When the process started, in clock ticks since boot; -1 if it does not exist.

    A pid can be reused; a pid with its start time cannot.
    """
    return _stat(pid, 19)


def boot_time() -> float:
    """When this machine booted, in seconds since 1970. No process can be older."""
    try:
        with open("/proc/stat") as file:
            return next(float(line.split()[1]) for line in file if line.startswith("btime"))
    except (OSError, StopIteration, ValueError):
        return 0.0


def children() -> list[int]:
    """The pids of the children of this process, including zombies."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # The kernel does not provide this file.
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [pid for pid in pids if _stat(pid, 1) == os.getpid()]


def _stat(pid: int, field: int) -> int:
    """A number from /proc/<pid>/stat, counted from the field after the name; -1 if unavailable."""
    fields = _stats(pid)
    return int(fields[field]) if len(fields) > field else -1


def _stats(pid: int) -> list[bytes]:
    """The fields of /proc/<pid>/stat after the name; empty if the process does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def sweep(cookie: bytes) -> set[int]:
    """Kill all processes with the cookie in their environment, until none is left."""
    killed: set[int] = set()
    for _ in range(100):
        found = {int(name) for name in os.listdir("/proc") if name.isdigit() and _has(name, cookie)}
        killed |= found
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not found:
            break
        time.sleep(0.01)
    return killed


def _has(pid: str, cookie: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return cookie in file.read().split(b"\0")
    except OSError:
        return False


def exit_status(pidfd: int, patience_s: float = 5.0) -> int | None:
    """The wait status of an ended process that is not our child; None if it is not available.

    Linux provides it since 6.15, after the parent has reaped the process. The descriptor must have
    been opened before that.
    """
    until = time.monotonic() + patience_s
    while True:
        record = bytearray(_INFO_BYTES)
        record[:8] = _INFO_EXIT.to_bytes(8, sys.byteorder)
        try:
            fcntl.ioctl(pidfd, _GET_INFO, record)
        except OSError:
            return None
        if int.from_bytes(record[:8], sys.byteorder) & _INFO_EXIT:
            return int.from_bytes(record[_INFO_BYTES - 4 :], sys.byteorder)
        if time.monotonic() > until:
            return None
        time.sleep(0.001)


def become_user(uid: int | None, gid: int, groups: Sequence[int]) -> None:
    """Switch to the user for good; with None, do nothing. Raises OSError."""
    if uid is None:
        return
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # The kernel takes the largest number for "unchanged", and this process is root.
    if (os.getresuid(), os.getresgid()) != ((uid,) * 3, (gid,) * 3):
        raise PermissionError(errno.EPERM, f"cannot become user {uid}")


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of init."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies. A change of user undoes this."""
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def owner(pid: int) -> int:
    """The real uid of the process; -1 if it does not exist."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(b"Uid:"))
    except (OSError, StopIteration):
        return -1


def parents() -> dict[int, int]:
    """The parent of every process, by pid."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {pid: parent for pid in pids if (parent := _stat(pid, 1)) >= 0}


def cpu_ticks(pid: int) -> int:
    """The CPU time of the process and of its children that have ended; -1 if it is gone."""
    fields = _stats(pid)
    return sum(int(each) for each in fields[11:15]) if fields else -1


def resident_pages(pid: int) -> int:
    """The pages of memory that the process occupies; -1 if it is gone."""
    return _stat(pid, 21)
