# SPDX-License-Identifier: Apache-2.0
"""The label keys of all nodes, for warnings about topology levels that no node has.

Nodes are watched only once there is a Topology, because a large cluster updates them often.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from kuota.api.base import Json
from kuota.api.rules.report import child, string_map
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import NODES

LabelKeys = frozenset[str]


class NodeLabels:
    """Counts the nodes with each label key. `changed` is called after a key appears or vanishes."""

    def __init__(
        self,
        client: Client,
        topologies: Informer[Any],
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._nodes: Informer[LabelKeys] = Informer(client, NODES, decode=_label_keys, clock=clock)
        self._counts: Counter[str] = Counter()
        self._needed = asyncio.Event()
        self._changed = changed
        self._nodes.observe(self._observed)
        topologies.observe(lambda old, new: self._needed.set())

    def __call__(self) -> LabelKeys | None:
        """Return the label keys; None while they are unknown or not needed."""
        return frozenset(self._counts) if self._nodes.synced.is_set() else None

    async def run(self) -> None:
        """Wait for the first Topology, then watch nodes until cancelled."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            await self._nodes.synced.wait()
            self._changed()

    def _observed(self, old: LabelKeys | None, new: LabelKeys | None) -> None:
        before = len(self._counts)
        self._counts.update(new or ())
        appeared = len(self._counts) > before
        self._counts.subtract(old or ())
        vanished = [key for key in old or () if not self._counts[key]]
        for key in vanished:
            del self._counts[key]
        if (appeared or vanished) and self._nodes.synced.is_set():
            self._changed()


def _label_keys(node: Json) -> LabelKeys:
    return frozenset(string_map(child(node, "metadata").get("labels")))
