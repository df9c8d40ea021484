# SPDX-License-Identifier: Apache-2.0
"""Lets Workloads follow the value of their WorkloadPriorityClass. Its deletion changes nothing."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.bridge.lifecycle_class import followers

from .effects import Sender
from .world import PRIORITY, World


class ClassReconciler:
    """Reads the world, and writes through `sender`."""

    def __init__(self, world: World, sender: Sender) -> None:
        self._world = world
        self._sender = sender

    async def reconcile(self, key: Key) -> float | None:
        """Give the Workloads of the class its value, one after the other."""
        held = self._world.workload_classes.get(key)
        if held is None or held.value is None:
            return None
        value = held.value
        named = self._world.workloads.indexed(PRIORITY, key.name)
        stale = [each for each in named if each.value and followers(value, [each.value])]
        for each in stale:
            async with self._sender.turns.of(each.key):
                newest = self._world.workload(each.key)
                if newest is not None and newest.value is not None:
                    await self._sender.send(followers(value, [newest.value]))
        return None
