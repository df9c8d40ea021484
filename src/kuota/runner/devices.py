# SPDX-License-Identifier: Apache-2.0
"""Allocates devices to pods. No device is ever allocated to two pods.

Allocations are on disk before they are returned, so that a restarted runner knows them. A pod keeps
its devices until all its processes have ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.quantity import units

_log = logging.getLogger(__name__)
Grant = dict[str, list[str]]
"""Device ids by resource."""


class Device(msgspec.Struct, frozen=True):
    """A device of this machine. `holder` is the uid of the pod that has it, "" if it is free."""

    node: str
    resource: str
    id: str
    holder: str = ""


class DeviceAllocations:
    """The devices of each node and their holders, by the uids of pods."""

    def __init__(self, path: str, devices: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self._path = path
        self._devices = devices
        self._grants: dict[str, Grant] = _read(path)

    def resources(self, node: str) -> set[str]:
        """The resources of the node that are allocated by device id."""
        return set(self._devices.get(node, {}))

    def take(self, uid: str, node: str, wanted: Mapping[str, int]) -> Grant | None:
        """Allocate devices to the pod; None if too few are free.

        Repeated calls return the same devices. Raises OSError if they cannot be recorded.
        """
        held = self._grants.get(uid)
        if held is not None:
            return held
        free = self.free(node)
        grant: Grant = {}
        for resource in self.resources(node) & set(wanted):
            count = max(0, wanted[resource])
            if len(free[resource]) < count:
                return None
            grant[resource] = free[resource][:count]
        if any(grant.values()):
            self._store({**self._grants, uid: grant})
        return grant

    def free(self, node: str) -> Grant:
        """The free devices of the node."""
        taken = {
            device for grant in self._grants.values() for some in grant.values() for device in some
        }
        return {
            resource: [each for each in some if each not in taken]
            for resource, some in self._devices.get(node, {}).items()
        }

    def release(self, uid: str) -> None:
        """Release the devices of the pod. Does nothing if it has none.

        If the disk is full, the file keeps them until the next change. A restarted runner releases
        devices of pods that it does not run.
        """
        if uid in self._grants:
            grants = {each: grant for each, grant in self._grants.items() if each != uid}
            try:
                self._store(grants)
            except OSError as error:
                _log.warning("%s: %s", self._path, error.strerror)
                self._grants = grants

    def all(self) -> list[Device]:
        """All devices, in the order of their nodes, and who holds them."""
        held = {
            device: uid
            for uid, grant in self._grants.items()
            for some in grant.values()
            for device in some
        }
        return [
            Device(node, resource, each, held.get(each, ""))
            for node, resources in self._devices.items()
            for resource, ids in resources.items()
            for each in ids
        ]

    def holders(self) -> dict[str, Grant]:
        """The allocated devices by the uid of the pod."""
        return dict(self._grants)

    def _store(self, grants: dict[str, Grant]) -> None:
        # Not synced: only a crash of the machine loses it, which also ends all processes.
        fresh = self._path + ".new"
        with open(fresh, "wb") as file:
            file.write(msgspec.json.encode(grants))
        os.replace(fresh, self._path)
        self._grants = grants


def _read(path: str) -> dict[str, Grant]:
    """The stored allocations; empty if a crash of the machine left a partial file."""
    with contextlib.suppress(FileNotFoundError, msgspec.DecodeError), open(path, "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, Grant])
    return {}


def shares(spec: Json, grant: Grant) -> dict[str, Grant]:
    """The devices of each container of the pod.

    Containers that run at the same time share no devices. An ordinary init container, which runs
    before them, reuses theirs.
    """
    seen: dict[str, Grant] = {}
    inits = spec.get("initContainers") or ()
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    for resource, ids in grant.items():
        used = 0
        for container in sidecars:
            used = _share(seen, container, resource, ids, used)
        for container in inits:
            if container not in sidecars:
                _share(seen, container, resource, ids, used)
        for container in spec.get("containers") or ():
            used = _share(seen, container, resource, ids, used)
    return seen


def _share(
    seen: dict[str, Grant], container: Json, resource: str, ids: list[str], start: int
) -> int:
    """Record the devices of one container, beginning at `start`; returns the next start."""
    end = start + wanted_devices(container).get(resource, 0)
    if end > start:
        seen.setdefault(container["name"], {})[resource] = ids[start:end]
    return end


def wanted_devices(container: Json) -> dict[str, int]:
    """The number of devices of each extended resource that the container requests."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: units(value, name) for name, value in asked.items() if "/" in name}
