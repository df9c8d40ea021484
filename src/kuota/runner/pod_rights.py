# SPDX-License-Identifier: Apache-2.0
"""What a pod may use of the machine: directories and users, by its author and its namespace.

The server applies the same lists when a pod or a template is written. They are applied again here,
because an admin may have shortened them since, and because older versions had no such lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kuota.accounts import own_home
from kuota.api.base import Json
from kuota.api.core import is_trusted
from kuota.api.host_paths import HostDirectory, host_path_faults, listed_directories
from kuota.api.run_as_users import listed_uids

from .container_env import CONFIG_ERROR, LaunchError
from .isolation import Isolation, confinement
from .launch import Mount
from .pod_home import PodHome
from .run_as import named_uid
from .settings import RunnerSettings


class PodRights(msgspec.Struct, frozen=True):
    """The rights of one pod. `host_directories` is None if it may use every directory."""

    trusted: bool
    listed: tuple[HostDirectory, ...]
    """The directories that the namespace lists."""
    host_directories: tuple[HostDirectory, ...] | None
    uids: frozenset[int]

    def confinement(
        self,
        home: PodHome,
        mounts: Sequence[Mount],
        isolation: Isolation,
        devices: Iterable[str] = (),
    ) -> dict[str, Any] | None:
        """The plan for `confine` of a container with these mounts and devices; None without one."""
        return confinement(
            isolation,
            home,
            trusted=self.trusted,
            directories=() if self.trusted else self.listed,
            read_only=_read_only(mounts),
            devices=devices,
        )

    def notes(self, mounts: Sequence[Mount], isolation: Isolation) -> list[str]:
        """For each read-only mount that the container can write: a note."""
        enforced = isolation.enforces_read_only and not (self.trusted and isolation.masked)
        if enforced:
            return []
        return [
            f"volume {each.volume} is mounted read-only, which is not enforced here"
            for each in mounts
            if each.read_only
        ]


def pod_rights(pod: Json, namespace: Json, settings: RunnerSettings) -> PodRights:
    """The rights of the pod. Raises LaunchError if it uses a directory without permission."""
    trusted = is_trusted(pod)
    directories = listed_directories(namespace)
    if trusted:
        return PodRights(True, directories, None, frozenset())
    allowed = directories
    uid = named_uid(pod)
    if settings.run_as.uid == 0 and uid is not None:
        home = own_home(uid)
        allowed += (HostDirectory(home, writable=True),) if home else ()
    name = pod["metadata"].get("namespace") or ""
    found = list(host_path_faults(pod["spec"], "spec", allowed, name))
    if found:
        raise LaunchError(CONFIG_ERROR, "; ".join(map(str, found)), permanent=True)
    _check_enforced(pod, allowed, settings.isolation)
    return PodRights(False, directories, allowed, listed_uids(namespace))


def _check_enforced(pod: Json, allowed: Sequence[HostDirectory], isolation: Isolation) -> None:
    """Raise LaunchError for a read-only directory if the machine cannot enforce it."""
    if isolation.enforces_read_only:
        return
    for volume in pod["spec"].get("volumes") or ():
        path = (volume.get("hostPath") or {}).get("path") or ""
        cover = [each for each in allowed if path and each.contains(path)]
        if cover and not any(each.writable for each in cover):
            message = (
                f"hostPath {path} is allowed for reading only, which this server cannot enforce, "
                "because it cannot create mount namespaces; an admin can allow it with :rw"
            )
            raise LaunchError(CONFIG_ERROR, message, permanent=True)


def _read_only(mounts: Sequence[Mount]) -> list[str]:
    """The sources of read-only mounts, without those that are mounted writable as well."""
    writable = [each.source for each in mounts if not each.read_only]
    return [
        each.source
        for each in mounts
        if each.read_only
        and not any(f"{other}/".startswith(f"{each.source}/") for other in writable)
    ]
