# SPDX-License-Identifier: Apache-2.0
"""The label keys of all nodes, for warnings about topology levels that no node has.

Nodes are needed only once there is a Topology. A large cluster updates them often.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from kuota.api.core import Node

from .cluster_cache import ClusterCache

LabelKeys = frozenset[str]


class NodeLabels:
    """Counts the nodes with each label key. `changed` is called after a key appears or vanishes."""

    def __init__(self, cache: ClusterCache, changed: Callable[[], None] = lambda: None) -> None:
        self._nodes = cache.nodes
        self._counts: Counter[str] = Counter()
        self._needed = asyncio.Event()
        self._known = False
        self._changed = changed
        cache.topologies.observe(lambda old, new: self._needed.set())

    def __call__(self) -> LabelKeys | None:
        """Return the label keys; None while they are unknown or not needed."""
        return frozenset(self._counts) if self._known else None

    async def run(self) -> None:
        """Wait for the first Topology, then for nodes, and observe them from then on."""
        await self._needed.wait()
        self._nodes.need()
        await self._nodes.synced.wait()
        self._nodes.observe(self._observed)
        self._known = True
        self._changed()

    def _observed(self, old: Node | None, new: Node | None) -> None:
        removed, added = _label_keys(old), _label_keys(new)
        if removed == added:
            return
        before = len(self._counts)
        self._counts.update(added)
        appeared = len(self._counts) > before
        self._counts.subtract(removed)
        vanished = [key for key in removed if not self._counts[key]]
        for key in vanished:
            del self._counts[key]
        if (appeared or vanished) and self._known:
            self._changed()


def _label_keys(node: Node | None) -> LabelKeys:
    return frozenset((node.metadata.labels or {}) if node is not None else ())
