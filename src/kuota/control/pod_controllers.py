# SPDX-License-Identifier: Apache-2.0
"""The controllers of scheduling gates and of failed nodes, which read or write pods."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kuota.api.gates import Gate, Gates
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.workqueue import serve

from .cluster_cache import ClusterCache
from .effects import EffectSender
from .node_failures import NodeFailures
from .observer import Instrument
from .parts import Part, Parts
from .ungater import Ungater

WORKERS = 8


class PodControllers:
    """Runs the controllers whose gates are enabled. They read Workloads and belong to CORE."""

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        gates: Gates,
        parts: Parts,
    ) -> None:
        topology = gates.on(Gate.TopologyAwareScheduling)
        self._ungater: Ungater | None = None
        self._failures: NodeFailures | None = None
        if Part.CORE not in parts:
            return
        if topology or gates.on(Gate.ElasticJobsViaWorkloadSlices):
            self._ungater = Ungater(client, cache, sender, clock, gates)
        if topology and gates.on(Gate.TASFailedNodeReplacement):
            self._failures = NodeFailures(client, cache, sender, clock, gates)

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Observe Workloads from now on, and nodes and pods once they are needed."""
        for each in (self._ungater, self._failures):
            if each is not None:
                each.follow()
                group.create_task(each.run())

    def served(self, instrument: Instrument) -> list[Coroutine[Any, Any, None]]:
        """Return what reconciles until the work queues are closed."""
        found: list[Coroutine[Any, Any, None]] = []
        if self._ungater is not None:
            passes = instrument("ungater", self._ungater.reconcile)
            found.append(serve(self._ungater.queue, passes, WORKERS))
        if self._failures is not None:
            checks = instrument("nodefailures", self._failures.reconcile)
            found.append(serve(self._failures.queue, checks, WORKERS))
        return found

    def close(self) -> None:
        """Start nothing more."""
        for each in (self._ungater, self._failures):
            if each is not None:
                each.queue.close()

    def depths(self) -> dict[str, int]:
        """Return the number of keys in each work queue."""
        named = {"ungater": self._ungater, "nodefailures": self._failures}
        return {name: len(each.queue) for name, each in named.items() if each is not None}
