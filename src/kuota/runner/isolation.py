# SPDX-License-Identifier: Apache-2.0
"""Decides how far a container is confined, and determines what this machine provides for it.

As root, every pod has a user. Read-only directories, and the device files of GPUs that a pod does
not have, need a mount namespace. Otherwise all pods run as the user of the server. The containers
of pods that a member submitted then see neither the state directory nor the private directories of
that user, as far as the kernel provides for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kuota.api.host_paths import HostDirectory

from .confine import LANDLOCK, NAMESPACES
from .pod_home import PodHome
from .spawn import SOURCE

_PROBE = f"import sys; sys.path.append({SOURCE!r}); from kuota.runner.confine import probe; probe()"
_PROBE_S = 30.0
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")
"""Directories in which programs of the same user find each other, such as tmux and ssh-agent."""
_CGROUPS = "/sys/fs/cgroup"


class Isolation(msgspec.Struct, frozen=True):
    """What confines containers: `mode` is "namespaces", "landlock" or "" for nothing.

    `masked` are the directories that pods of members do not see. It is empty if the server is root,
    because these pods then have users of their own. `device_files` has the files of GPUs by device.
    """

    mode: str = ""
    masked: tuple[str, ...] = ()
    device_files: Mapping[str, str] = {}

    @property
    def enforces_read_only(self) -> bool:
        return self.mode == NAMESPACES

    def closing(self, device_files: Mapping[str, str]) -> Isolation:
        """The same with GPUs that have these files."""
        return msgspec.structs.replace(self, device_files=device_files)

    def foreign_files(self, devices: Iterable[str]) -> list[str]:
        """The device files of all GPUs but those with these devices, as far as they are closed."""
        if self.mode != NAMESPACES:
            return []
        own = {self.device_files.get(each) for each in devices}
        return sorted({*self.device_files.values()} - own)


def available() -> str:
    """The strongest mode that this process can use, determined in a process of its own."""
    argv = [sys.executable, "-I", "-S", "-c", _PROBE]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_PROBE_S, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = done.stdout.decode(errors="replace")
    return found if found in (NAMESPACES, LANDLOCK) else ""


def isolation(state_dir: str, mode: str) -> Isolation:
    """The isolation of a server with this state directory."""
    if os.geteuid() == 0:
        return Isolation(mode if mode == NAMESPACES else "")
    private = (state_dir, os.path.expanduser("~"), f"/run/user/{os.geteuid()}", *_SHARED)
    real = {os.path.realpath(each) for each in private} - {"/"}
    return Isolation(mode, tuple(sorted(real)) if mode else ())


def confinement(
    isolation: Isolation,
    home: PodHome,
    *,
    trusted: bool,
    directories: Sequence[HostDirectory] = (),
    read_only: Iterable[str] = (),
    devices: Iterable[str] = (),
) -> dict[str, Any] | None:
    """The plan for `confine`; None for a container that needs none.

    `trusted` pods were submitted by an admin. `directories` are those that the namespace lists.
    `devices` are those that were allocated to the pod.
    """
    masked = [] if trusted else list(isolation.masked)
    closed = {*read_only} if isolation.enforces_read_only else set()
    if not trusted and isolation.enforces_read_only:
        closed |= {each.path for each in directories if not each.writable}
    foreign = isolation.foreign_files(devices)
    if not masked and (not (closed or foreign) or os.geteuid() != 0):
        return None
    kept = [(home.root, True), (home.volumes, True)]
    if masked:  # The limits of the pod belong to the user of the server, as the pod does.
        masked += [_CGROUPS] if isolation.mode == LANDLOCK else []
        kept += [(_CGROUPS, False)]
    kept += [(each.path, each.writable) for each in directories if _is_in(each.path, masked)]
    return {
        "mode": isolation.mode,
        "user": bool(masked) and os.geteuid() != 0,
        "masked": masked,
        "kept": [(os.path.realpath(path), writable) for path, writable in kept] if masked else [],
        "read_only": sorted(closed),
        "closed_devices": foreign,
    }


def _is_in(path: str, folders: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(real == each or real.startswith(each + "/") for each in folders)
