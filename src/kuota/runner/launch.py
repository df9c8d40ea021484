# SPDX-License-Identifier: Apache-2.0
"""Builds the process of a container: arguments, environment, directory, mounts. Pure.

Images are recorded but never pulled, so a container must set its command. The process sees the
files of this machine. A volume is a directory of the pod, and the variable `KUOTA_VOLUME_<NAME>`
contains its path. Inside the root directory of the pod, where processes start by default, the mount
path leads to the volume too. Nothing is created outside that directory, because two pods may use
the same mount path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.core import argv

from .container_env import (
    LONGEST_PATH,
    LaunchError,
    Sources,
    container_env,
    expanded,
    limited,
)

GRACE_S = 30
_NOT_A_NAME = re.compile(r"[^A-Z0-9]+")
_NO_DEVICES: Mapping[str, Sequence[str]] = {}

VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""The variables that list the visible devices for CUDA and containers; empty for none."""


class Mount(msgspec.Struct, frozen=True):
    """A directory or file and its mount path in the container."""

    volume: str
    source: str
    path: str
    read_only: bool = False
    inside: str = ""
    """The subPath below the volume."""


class PodEnvironment(msgspec.Struct, frozen=True):
    """What the machine provides to a pod before its containers start."""

    root: str
    volumes: Mapping[str, str] = {}
    base_env: Mapping[str, str] = {}


class ContainerPlan(msgspec.Struct, frozen=True):
    """Everything that is needed to start a container as a process."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    mounts: tuple[Mount, ...]


def container_plan(
    pod: Json,
    container: Json,
    place: PodEnvironment,
    sources: Sources,
    devices: Mapping[str, Sequence[str]] = _NO_DEVICES,
) -> ContainerPlan:
    """The process of one container. Raises LaunchError if the container is invalid.

    `devices` contains the device ids of this container, by resource. The variables that list them
    override the environment of the container.
    """
    volumes = {volume_variable(name): path for name, path in place.volumes.items()}
    base = {**place.base_env, **identity_env(pod), **volumes}
    env = container_env(pod, container, sources, base) | device_env(devices)
    return ContainerPlan(
        name=container["name"],
        argv=limited((expanded(word, env) for word in command_line(container)), "the arguments"),
        env=env,
        cwd=working_directory(container, place.root),
        mounts=tuple(mounts(container, place, env)),
    )


def command_line(container: Json) -> list[str]:
    """The command and args, not expanded. Raises LaunchError if there is nothing to run."""
    words = argv(container)
    if not words:
        image = container.get("image") or ""
        raise LaunchError(
            "StartError",
            f"no command in container {container['name']!r}: images are not pulled, so the "
            f"entrypoint of {image!r} is unknown; set `command`",
            permanent=True,
        )
    return words


def working_directory(container: Json, root: str) -> str:
    """The directory in which the process starts: workingDir, relative to the pod's root."""
    return posixpath.normpath(posixpath.join(root, container.get("workingDir") or ""))


def identity_env(pod: Json) -> dict[str, str]:
    """Variables that identify the pod of a process."""
    meta = pod["metadata"]
    return {
        "HOSTNAME": (pod.get("spec") or {}).get("hostname") or meta["name"],
        "KUOTA_POD_UID": meta.get("uid") or "",
    }


def volume_variable(name: str) -> str:
    """The name of the variable with the directory of the volume."""
    return "KUOTA_VOLUME_" + _NOT_A_NAME.sub("_", name.upper())


def device_env(devices: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Variables that show a process its NVIDIA devices and hide all others."""
    ids = [
        each
        for resource, some in sorted(devices.items())
        if resource.startswith("nvidia.com/")
        for each in some
    ]
    return dict.fromkeys(VISIBLE, ",".join(ids))


def mounts(container: Json, place: PodEnvironment, env: Mapping[str, str]) -> Iterator[Mount]:
    """The mounts of the container. Raises LaunchError for unknown volumes."""
    for each in container.get("volumeMounts") or ():
        name = each.get("name") or ""
        source = place.volumes.get(name)
        if source is None:
            raise LaunchError(
                "StartError",
                f"container {container['name']!r} mounts {name!r}, but the pod has no such volume",
                permanent=True,
            )
        inside = each.get("subPath") or expanded(each.get("subPathExpr") or "", env, LONGEST_PATH)
        yield Mount(
            volume=name,
            source=_below(source, inside, name),
            path=posixpath.normpath("/" + (each.get("mountPath") or "").lstrip("/")),
            read_only=bool(each.get("readOnly")),
            inside=inside,
        )


def _below(source: str, inside: str, volume: str) -> str:
    if not inside:
        return source
    if inside.startswith("/") or ".." in inside.split("/") or "\0" in inside:
        raise LaunchError(
            "StartError", f"subPath {inside!r} leads outside of volume {volume!r}", permanent=True
        )
    return posixpath.join(source, inside)


def mount_notes(some: Sequence[Mount]) -> list[str]:
    """For each mount path that the process cannot see: where to find the volume instead."""
    return [
        f"volume {each.volume} is at {each.source}, in ${volume_variable(each.volume)} and at"
        f" .{each.path} of the pod's root, not at {each.path}"
        for each in some
        if each.path != posixpath.normpath(each.source)
    ]


def grace_period_s(pod: Json) -> int:
    """Seconds between TERM and KILL: from the deletion, otherwise from the pod, otherwise 30."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return GRACE_S if asked is None else max(0, int(asked))
