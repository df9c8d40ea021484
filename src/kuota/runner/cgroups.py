# SPDX-License-Identifier: Apache-2.0
"""CPU, memory and PID limits through cgroup v2, as far as it is delegated to this process.

A group can only delegate controllers if it contains no process, so this process moves into a leaf
group. Limits whose controller is missing are not enforced, and `refusal` states the reason. If
processes are bound to CPUs, the controller `cpuset` enforces that, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

import msgspec

from kuota.api.base import Json
from kuota.api.quantity import parse

PODS_PIDS = 16384
"""The default number of processes and threads of one pod, which stops a fork bomb."""
_PERIOD_US = 100_000
_NANO = 10**9
_CONTROLLERS = ("cpu", "memory", "pids")
_CPUSET = "cpuset"
"""Never reported as missing: without it, processes are bound to CPUs, but can lift that."""


class Cgroups(msgspec.Struct, frozen=True):
    """The parent directory of container groups, "" if there is none.

    `controllers` are those whose limits are enforced; `refusal` explains why others are missing.
    """

    root: str = ""
    refusal: str = ""
    controllers: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The controllers that limit nothing here."""
        return [each for each in _CONTROLLERS if each not in self.controllers]

    def path(self, uid: str, container: str) -> str:
        """The group of one container; "" if cgroups are unavailable."""
        return f"{self.root}/pod-{uid}/{container}" if self.root else ""

    def create(
        self,
        uid: str,
        container: str,
        limits: Json,
        pids: int = PODS_PIDS,
        cpus: Iterable[int] = (),
    ) -> str:
        """Create the group of one container with its limits; "" if cgroups are unavailable.

        Raises OSError if the kernel rejects a limit. `pids` limits all containers of the pod
        together. Without `cpus`, the container may use all CPUs.
        """
        path = self.path(uid, container)
        if not path:
            return ""
        pod = os.path.dirname(path)
        os.makedirs(pod, exist_ok=True)
        _delegate(pod, self.controllers)
        if "pids" in self.controllers:
            _write(f"{pod}/pids.max", str(pids))
        os.makedirs(path, exist_ok=True)
        enforced = {name: limits[name] for name in limits if name in self.controllers}
        for name, value in settings(enforced).items():
            _write(f"{path}/{name}", value)
        bound = ",".join(map(str, cpus))
        if bound and _CPUSET in self.controllers:
            _write(f"{path}/cpuset.cpus", bound)
        if "memory" in enforced:
            with contextlib.suppress(OSError):  # Absent if the kernel does not account for swap.
                _write(f"{path}/memory.swap.max", "0")
        return path

    def remove(self, uid: str) -> None:
        """Remove the groups of a pod after all its processes have ended."""
        pod = f"{self.root}/pod-{uid}"
        if not self.root or not os.path.isdir(pod):
            return
        for entry in list(os.scandir(pod)):
            if entry.is_dir():
                with contextlib.suppress(OSError):
                    os.rmdir(entry.path)
        with contextlib.suppress(OSError):
            os.rmdir(pod)


def settings(limits: Json) -> dict[str, str]:
    """The content of each control file of a group. Without limits it is empty."""
    files: dict[str, str] = {}
    if "cpu" in limits:
        quota_us = parse(limits["cpu"]) * _PERIOD_US // _NANO
        files["cpu.max"] = f"{max(1000, quota_us)} {_PERIOD_US}"
    if "memory" in limits:
        files["memory.max"] = str(parse(limits["memory"]) // _NANO)
    return files


def delegated(
    own: str = "/proc/self/cgroup", mounts: str = "/proc/self/mountinfo", *, cpuset: bool = False
) -> Cgroups:
    """The groups that this process can create. It moves into a group of its own.

    With `cpuset`, the groups can also be bound to CPUs, if that controller is available.
    """
    try:
        groups, mounted = _read(own), _read(mounts)
    except OSError as error:
        return Cgroups(refusal=f"this machine has no cgroups: {error.strerror}")
    path = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    if path is None:
        return Cgroups(refusal="this machine has no cgroup v2")
    base = _place(path, mounted)
    if base is None:
        return Cgroups(
            refusal=f"the cgroup v2 hierarchy with the group {path} is not mounted; "
            "mount it with `mount -t cgroup2 none /sys/fs/cgroup`"
        )
    try:
        offered = _read(base + "/cgroup.controllers").split()
    except OSError as error:
        return Cgroups(refusal=f"the cgroup {base} cannot be read: {error.strerror}")
    usable = tuple(each for each in _CONTROLLERS if each in offered)
    if not usable:
        return Cgroups(refusal=_missing(_CONTROLLERS, groups, base))
    chosen = (*usable, _CPUSET) if cpuset and _CPUSET in offered else usable
    try:
        return _opened(base, chosen, _missing(_CONTROLLERS, groups, base, usable))
    except OSError as error:
        why = error.strerror or str(error)
        return Cgroups(refusal=f"the cgroup {base} is not delegated to this process: {why}; {_FIX}")


_FIX = "start Kuota with `systemd-run --scope -p Delegate=yes`, as a user with `--user`"


def _opened(base: str, usable: tuple[str, ...], refusal: str) -> Cgroups:
    """Create the group of pods, after this process has moved out of the way."""
    os.makedirs(base + "/kuota-runner", exist_ok=True)
    _write(base + "/kuota-runner/cgroup.procs", str(os.getpid()))
    _delegate(base, usable)
    os.makedirs(base + "/kuota-pods", exist_ok=True)
    _delegate(base + "/kuota-pods", usable)
    return Cgroups(root=base + "/kuota-pods", controllers=usable, refusal=refusal)


def _place(path: str, mounted: str) -> str | None:
    """The directory of the group, wherever the hierarchy is mounted; None if it is not."""
    for line in mounted.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.split()[:1] != ["cgroup2"]:
            continue
        root, place = (each.replace("\\040", " ") for each in fields.split()[3:5])
        inside = path if root == "/" else path.removeprefix(root)
        if root == "/" or path == root or path.startswith(root + "/"):
            return place.rstrip("/") + inside.rstrip("/")
    return None


def _missing(wanted: tuple[str, ...], groups: str, base: str, usable: tuple[str, ...] = ()) -> str:
    """Why controllers are missing; "" if none is."""
    missing = [each for each in wanted if each not in usable]
    if not missing:
        return ""
    used = {name for line in groups.splitlines() for name in line.split(":")[1].split(",")}
    names = ", ".join(missing)
    if used & {*missing}:
        return (
            f"cgroup v1 uses the controllers {names} on this machine, so the cgroup v2 hierarchy "
            f"at {base or '/'} does not have them; boot with systemd.unified_cgroup_hierarchy=1"
        )
    return f"the controllers {names} are not delegated to the cgroup {base}; {_FIX}"


def _delegate(folder: str, controllers: tuple[str, ...]) -> None:
    _write(f"{folder}/cgroup.subtree_control", " ".join(f"+{each}" for each in controllers))


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
