# SPDX-License-Identifier: Apache-2.0
"""Lets Workloads follow the value of their WorkloadPriorityClass. Its deletion changes nothing."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.bridge.effects import Patch

from .effects import Sender
from .world import World

_KIND = "WorkloadPriorityClass"


class ClassReconciler:
    """Reads the world, and writes through `sender`."""

    def __init__(self, world: World, sender: Sender) -> None:
        self._world = world
        self._sender = sender

    async def reconcile(self, key: Key) -> float | None:
        """Give every unfinished Workload of the class its value, whether it holds quota or not."""
        held = self._world.workload_classes.get(key)
        if held is None or held.value is None:
            return None
        value = held.value.value
        for each in list(self._world.workloads.values()):
            newest = self._world.workload(each.key)
            seen = newest.value if newest is not None else None
            if seen is None or seen.true("Finished"):
                continue
            spec, ref = seen.obj.spec, seen.obj.spec.priority_class_ref
            named = ref is not None and (ref.kind, ref.name) == (_KIND, key.name)
            if named and spec.priority != value:
                version = seen.obj.metadata.resource_version
                body = {"spec": {"priority": value}}
                await self._sender.send([Patch(key=each.key, resource_version=version, body=body)])
        return None
