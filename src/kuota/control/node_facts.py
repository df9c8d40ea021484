# SPDX-License-Identifier: Apache-2.0
"""Feeds the engine with nodes, and with the pods on them that no topology places.

Both are needed only once a ResourceFlavor names a Topology. Until all of them are known, the engine
places nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.core import Node, Pod
from kuota.api.gates import Gate, Gates
from kuota.api.rules.report import child
from kuota.bridge import inbound_nodes
from kuota.engine import model
from kuota.engine.facts import NodesListed, ObjectDeleted, ObjectStored
from kuota.failures import report
from kuota.kube.resources import key_of

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .facts import ApplyFact


class NodeFacts:
    """Reports nodes and pods to an engine, and only those changes that matter to placement."""

    def __init__(self, cache: ClusterCache, apply: ApplyFact, gates: Gates) -> None:
        self._cache = cache
        self._apply = apply
        self._gates = gates
        self._needed = asyncio.Event()

    def follow(self) -> None:
        """Wait for the first flavor with a topology, if the gate is enabled."""
        if self._gates.on(Gate.TopologyAwareScheduling):
            self._cache.flavors.observe(self._flavor)

    async def run(self) -> None:
        """Tell the engine when all nodes and pods are known."""
        await self._needed.wait()
        await self._cache.nodes.settled.wait()
        await self._cache.pods.settled.wait()
        self._apply(NodesListed())

    def _flavor(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        value = new.value if new is not None else None
        if value is None or not value.spec.topology_name or self._needed.is_set():
            return
        self._needed.set()
        for informer in (self._cache.nodes, self._cache.pods):
            informer.need()
        self._cache.nodes.observe(self._node)
        self._cache.pods.observe(self._pod)

    def _node(self, old: Node | None, new: Node | None) -> None:
        known, value = _node(old), _node(new)
        if value is not None and value != known:
            self._apply(ObjectStored(value=value))
        elif value is None and known is not None:
            self._apply(ObjectDeleted(kind=model.Node, key=_either(old, new).key))

    def _pod(self, old: Json | None, new: Json | None) -> None:
        if not (_bound(old) or _bound(new)):
            return
        known, value = _usage(old), _usage(new)
        if value is not None and value != known:
            self._apply(ObjectStored(value=value))
        elif value is None and known is not None:
            self._apply(ObjectDeleted(kind=model.PodUsage, key=known.key))


def _either(old: Node | None, new: Node | None) -> Node:
    found = new or old
    assert found is not None
    return found


def _node(node: Node | None) -> model.Node | None:
    try:
        return inbound_nodes.node(node) if node is not None else None
    except ValueError as error:
        report("translation", error, "a Node cannot be translated; its capacity is not used")
        return None


def _bound(pod: Json | None) -> bool:
    return pod is not None and bool(child(pod, "spec").get("nodeName"))


def _usage(pod: Json | None) -> model.PodUsage | None:
    """Return what a pod uses; None if that is nothing or cannot be read."""
    if pod is None or not _bound(pod):
        return None
    try:
        return inbound_nodes.pod_usage(msgspec.convert(pod, Pod))
    except ValueError as error:
        report("translation", error, f"pod {key_of(pod)} cannot be translated; it counts as absent")
        return None
