# SPDX-License-Identifier: Apache-2.0
"""Confines the calling process, which is about to become a container, with namespaces or Landlock.

A plan is a dictionary with these entries:

mode        "namespaces", "landlock" or "" for neither
user        whether a user namespace is needed because the process is not root
masked      directories that the process must not see
kept        pairs of a path in a masked directory that stays visible, and whether it is writable
read_only   directories that the process must not write
closed_devices  device files that the process must not open; only with namespaces

With namespaces, masked directories are empty and private to the process. With Landlock, the process
has no access to them. Used by the server of shims, so it imports almost nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

NAMESPACES, LANDLOCK = "namespaces", "landlock"
_NEWNS, _NEWUSER, _NEWIPC = 0x20000, 0x10000000, 0x08000000
_NODEV, _NOSUID, _BIND, _REC, _SLAVE = 4, 2, 4096, 16384, 1 << 19
_NO_NEW_PRIVS = 38
_MOUNT_SETATTR, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 442, 444, 445, 446
"""Numbers of system calls. They are the same on all architectures."""
_AT_RECURSIVE, _RDONLY, _CLOSED = 0x8000, 1, 4
"""A flag of `mount_setattr`, and the attributes MOUNT_ATTR_RDONLY and MOUNT_ATTR_NODEV."""
_VERSION = 1
_SCOPES = 3
"""No signals to, and no abstract sockets of, processes outside of the container."""
_SCOPES_SINCE = 6
_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""The number of file system rights since each version of Landlock."""
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_libc = ctypes.CDLL(None, use_errno=True)


def confine(plan: dict[str, Any]) -> None:
    """Confine this process as planned. It must have only one thread. Raises OSError."""
    if plan["mode"] == NAMESPACES:
        _enter_namespaces(plan["user"])
        _mask(plan["masked"], plan["kept"])
        for path, writable in plan["kept"]:
            if not writable and os.path.exists(path):
                _make_read_only(path)
        for path in plan["read_only"]:
            if os.path.exists(path):
                _make_read_only(path)
        # A shim of an earlier version has a plan without them.
        for path in plan.get("closed_devices", ()):
            if os.path.exists(path):
                _remount(path, _CLOSED)
    if plan["user"] or plan["mode"] == LANDLOCK:
        _restrict(plan)


def _enter_namespaces(user: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    flags = _NEWNS | (_NEWUSER | _NEWIPC if user else 0)
    _checked(_libc.unshare(flags), "unshare")
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    # Mounts that the machine adds later appear here, and none of ours appear there.
    _mount("none", "/", "", _REC | _SLAVE)


def _mask(masked: list[str], kept: list[tuple[str, bool]]) -> None:
    """Cover the directories with empty ones, and put what is kept back in its place."""
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path, _ in kept if _exists(path)]
    for path in sorted(masked):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, b"mode=0700")
    for path, source in sources:
        if not _exists(path):
            _make_place(path, os.path.isdir(f"/proc/self/fd/{source}"))
        _mount(f"/proc/self/fd/{source}", path, "", _BIND | _REC)
        os.close(source)


def _make_place(path: str, is_directory: bool) -> None:
    os.makedirs(path if is_directory else os.path.dirname(path), exist_ok=True)
    if not is_directory:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _make_read_only(path: str) -> None:
    """Mount the path on itself, read-only with everything below it."""
    _remount(path, _RDONLY)


def _remount(path: str, attribute: int) -> None:
    """Mount the path on itself with an attribute, which everything below it has as well."""
    _mount(path, path, "", _BIND | _REC)
    attributes = struct.pack("QQQQ", attribute, 0, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR, -100, os.fsencode(path), _AT_RECURSIVE, attributes, len(attributes)
    )
    _checked(result, path)


def _restrict(plan: dict[str, Any]) -> None:
    """Enter a Landlock domain: signals stay inside, and with mode landlock files do too."""
    version = landlock_version()
    files = plan["mode"] == LANDLOCK
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    rights = _all_rights(version) if files else 0
    if not rights and not scopes:
        return
    attributes = struct.pack("QQQ", rights, 0, scopes)[: 24 if scopes else 8]
    ruleset = _checked(
        _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "Landlock ruleset"
    )
    if files:
        for path in _visible("/", set(plan["masked"])):
            _allow(ruleset, path, rights)
        for path, writable in plan["kept"]:
            reading = rights & (_EXECUTE | _READ | _LIST)
            _allow(ruleset, path, rights if writable else reading)
    _checked(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _visible(folder: str, masked: set[str]) -> Iterator[str]:
    """The paths that together contain everything except the masked directories."""
    try:
        entries = [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return
    for path in entries:
        if path in masked or os.path.islink(path):
            continue
        if any(each.startswith(path + "/") for each in masked):
            yield from _visible(path, masked)
        else:
            yield path


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # Not there, or not accessible for this user anyway.
    if not os.path.isdir(f"/proc/self/fd/{place}"):
        rights &= _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
    rule = struct.pack("=Qi", rights, place)
    result = _libc.syscall(_ADD_RULE, ruleset, 1, rule, 0)
    os.close(place)
    _checked(result, path)


def landlock_version() -> int:
    """The version of Landlock in this kernel; 0 if there is none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, _VERSION)))


def _all_rights(version: int) -> int:
    count = max((number for since, number in _RIGHTS if version >= since), default=0)
    return (1 << count) - 1


def _mount(source: str, target: str, kind: str, flags: int, options: bytes = b"") -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() or None, flags, options or None
    )
    _checked(result, target)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def probe() -> None:
    """Print the strongest mode that works for this process. It is confined afterwards."""
    plan = {"user": os.geteuid() != 0, "masked": [], "kept": [], "read_only": ["/etc"]}
    try:
        confine(plan | {"mode": NAMESPACES})
    except OSError:
        sys.stdout.write(LANDLOCK if landlock_version() else "")
    else:
        sys.stdout.write(NAMESPACES)
