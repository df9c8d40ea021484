# SPDX-License-Identifier: Apache-2.0
"""Creates the files of a pod, in a process that has already switched to the user of the pod.

Names and paths come from manifests, and the directories belong to the user, who may replace
anything in them by a link at any moment. A process of root must therefore not create, write or
chown anything there. This process has no rights that the user lacks, and it never follows a link
below the pod's directory. Used by the server of shims, so it imports almost nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TYPES: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
_BOTH = "a path is used as a file and as a directory; change the paths of volumes and mounts"
_FINAL = {
    errno.ENAMETOOLONG: "a name has at most 255 bytes, and a path at most 4095; shorten it",
    errno.ENOTDIR: _BOTH,
    errno.EISDIR: _BOTH,
}
"""What to do about errors that retrying cannot change, because the manifest causes them."""


class Refusal(Exception):
    """The files cannot be created. `permanent` means that retrying cannot help."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


def creation_failure(error: OSError) -> tuple[str, bool]:
    """Return why the files cannot be created, and whether that is permanent."""
    message = f"cannot create the files of the pod as its user: {error}"
    remedy = _FINAL.get(error.errno or 0)
    return (f"{message}: {remedy}", True) if remedy else (message, False)


def prepare(plan: dict[str, Any]) -> None:
    """Create directories, files and links. May be repeated. Raises Refusal or OSError."""
    os.umask(0o022)
    for path, kind in plan["host_paths"]:
        _check_host_path(path, kind, plan)
    for name in plan["directories"]:
        with _opened(plan["volumes"], [name]):
            pass
    for volume, path, content, mode in plan["files"]:
        *folders, name = _parts(path)
        with _opened(plan["volumes"], [volume, *folders]) as folder:
            _write(folder, name, content, mode)
    links = _Links(plan)
    for mount in sorted(plan["mounts"], key=lambda each: len(_parts(each[3]))):
        links.add(*mount)


class _Links:
    """Links from the mount paths below the pod's root directory to the volumes."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._made: dict[tuple[str, ...], tuple[str, list[str]] | None] = {}
        """The volume and sub-path behind each mount path; None for a hostPath."""

    def add(self, volume: str, host: str, inside: str, place: str) -> None:
        """Link the mount path to the volume, or to the hostPath `host` if it is not empty."""
        parts, below = _parts(place), _parts(inside)
        if host:
            _check_source(os.path.join(host, inside), self._plan)
        else:
            self._make_sub_path(volume, below)
        if not parts:
            return  # The root directory of the pod itself cannot be replaced by a link.
        base, rest = self._base(parts)
        target = os.path.join(host or f"{self._plan['volumes']}/{volume}", inside)
        with _opened(base, rest[:-1]) as folder, contextlib.suppress(FileExistsError):
            os.symlink(target, rest[-1], dir_fd=folder)
        self._made.setdefault(tuple(parts), None if host else (volume, below))

    def _base(self, parts: list[str]) -> tuple[str, list[str]]:
        """The directory in which to create the link, and the path below it."""
        for length in range(len(parts) - 1, 0, -1):
            above = tuple(parts[:length])
            if above not in self._made:
                continue
            found = self._made[above]
            if found is None:
                raise Refusal(
                    f"mountPath /{'/'.join(parts)} is below the hostPath mount "
                    f"/{'/'.join(above)}; nothing is created in a directory of the host",
                    permanent=True,
                )
            volume, below = found
            return self._plan["volumes"], [volume, *below, *parts[length:]]
        return self._plan["root"], parts

    def _make_sub_path(self, volume: str, below: list[str]) -> None:
        """Create a subPath that does not exist yet. It may also be a file of the volume."""
        if not below:
            return
        above = [volume, *below[:-1]]
        with _opened(self._plan["volumes"], above) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(below[-1], dir_fd=folder)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


@contextlib.contextmanager
def _opened(base: str, parts: Sequence[str]) -> Iterator[int]:
    """A descriptor of the directory below `base`. Creates directories, and follows no links."""
    folder = os.open(base, _FOLDER)
    try:
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _write(folder: int, name: str, content: bytes, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode & 0o777)


def _check_host_path(path: str, kind: str, plan: dict[str, Any]) -> None:
    """Create the path if requested, and check its type."""
    _check_source(path, plan)
    if kind.endswith("OrCreate") and not os.path.lexists(path):
        if kind == "DirectoryOrCreate":
            os.makedirs(path, exist_ok=True)
        else:
            os.close(os.open(path, _NEW_FILE, 0o644))
    if not kind:
        return
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise Refusal(f"hostPath {path}: {error.strerror}") from None
    is_right, what = _TYPES[kind]
    if not is_right(mode):
        raise Refusal(f"hostPath type check failed: {path} is not {what}")


def _check_source(path: str, plan: dict[str, Any]) -> None:
    """Check where the path leads. Raises Refusal if the pod may not use it.

    Links are resolved first, because a link in an allowed directory may lead elsewhere.
    """
    real = os.path.realpath(path)
    if _is_within_state(real, plan["state_dir"]):
        raise Refusal(f"hostPath {path} is in the state directory of Kuota", permanent=True)
    allowed = plan["allowed"]
    if allowed is not None and not any(_is_below(real, each) for each in allowed):
        raise Refusal(
            f"hostPath {path} leads to {real}, which is not in a directory that an admin allows",
            permanent=True,
        )


def _is_within_state(real: str, state_dir: str) -> bool:
    """Whether the path is the state directory or in it, also under another name."""
    if _is_below(real, state_dir):
        return True
    try:
        state = os.stat(state_dir)
    except OSError:
        return False
    while real != "/":
        with contextlib.suppress(OSError):
            found = os.stat(real)
            if (found.st_dev, found.st_ino) == (state.st_dev, state.st_ino):
                return True
        real = os.path.dirname(real)
    return False


def _is_below(real: str, folder: str) -> bool:
    return os.path.commonpath([real, os.path.realpath(folder)]) == os.path.realpath(folder)
