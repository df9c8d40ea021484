# SPDX-License-Identifier: Apache-2.0
"""CPU and memory limits through cgroup v2, if a directory is delegated to this process.

A group can only delegate controllers if it contains no process, so this process moves into a leaf
group. If any step is impossible there are no limits, and `refusal` states the reason.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from kuota.api.base import Json
from kuota.api.quantity import parse

_PERIOD_US = 100_000
_NANO = 10**9
_NEEDED = ("cpu", "memory")


class Cgroups(msgspec.Struct, frozen=True):
    """The parent directory of container groups, or the reason why there is none."""

    root: str = ""
    refusal: str = ""

    def path(self, uid: str, container: str) -> str:
        """The group of one container; "" if cgroups are unavailable."""
        return f"{self.root}/pod-{uid}/{container}" if self.root else ""

    def create(self, uid: str, container: str, limits: Json) -> str:
        """Create the group of one container with its limits; "" if cgroups are unavailable."""
        path = self.path(uid, container)
        if not path:
            return ""
        try:
            os.makedirs(path, exist_ok=True)
            _write(f"{self.root}/pod-{uid}/cgroup.subtree_control", "+cpu +memory")
            for name, value in settings(limits).items():
                _write(f"{path}/{name}", value)
        except OSError:
            return ""
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


def delegated(mount: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> Cgroups:
    """The groups that this process can create."""
    try:
        with open(own) as file:
            lines = file.read().split()
    except OSError as error:
        return Cgroups(refusal=f"no cgroups: {error.strerror}")
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None:
        return Cgroups(refusal="this machine has no cgroup v2")
    base = mount + path.rstrip("/")
    try:
        with open(base + "/cgroup.controllers") as file:
            offered = file.read().split()
    except OSError:
        return Cgroups(refusal="this machine has no cgroup v2 hierarchy")
    missing = [each for each in _NEEDED if each not in offered]
    if missing:
        return Cgroups(
            refusal=f"the cgroup controller {missing[0]} is not delegated to this process"
        )
    try:
        os.makedirs(base + "/kuota-runner", exist_ok=True)
        _write(base + "/kuota-runner/cgroup.procs", str(os.getpid()))
        _write(base + "/cgroup.subtree_control", "+cpu +memory")
        os.makedirs(base + "/kuota-pods", exist_ok=True)
        _write(base + "/kuota-pods/cgroup.subtree_control", "+cpu +memory")
    except OSError as error:
        return Cgroups(
            refusal=f"the cgroup {path} is not delegated to this process: {error.strerror}"
        )
    return Cgroups(root=base + "/kuota-pods")


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
