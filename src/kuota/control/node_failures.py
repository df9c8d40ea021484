# SPDX-License-Identifier: Apache-2.0
"""Records failed nodes in the Workloads that run on them, using `kuota.bridge.node_failures`.

Nodes and pods are needed once a Workload is assigned to nodes by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import Node, Pod
from kuota.api.gates import Gates
from kuota.api.rules.report import child
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_nodes import topology_annotated
from kuota.bridge.job_pass.slices import chain_name
from kuota.bridge.node_failures import (
    TERMINATED_EVENT,
    NodeView,
    affected_by_node_failures,
    assigned_nodes,
    may_have_failed,
    recheck_in_s,
    recorded,
    terminated_note,
    terminated_status,
    undecided,
    verdict,
)
from kuota.bridge.workload_pods import WorkloadPod, workload_pod
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.resources import PODS
from kuota.kube.workqueue import WorkQueue

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .effects import EffectSender
from .node_pod_informers import FOR_NODE, IN_CHAIN

NODE = "assigned node"
"""The index of Workloads by the nodes that they are assigned to."""
BATCH_S = 0.1
"""Changes of pods of one node within this time are considered together."""


class NodeFailures:
    """Reconciles nodes by name."""

    def __init__(
        self, client: Client, cache: ClusterCache, sender: EffectSender, clock: Clock, gates: Gates
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock)
        self._client = client
        self._cache = cache
        self._sender = sender
        self._clock = clock
        self._gates = gates
        self._observing = False
        cache.workloads.add_index(NODE, _nodes)

    def follow(self) -> None:
        """Observe Workloads from now on."""
        self._cache.workloads.observe(self._workload)

    async def run(self) -> None:
        """Observe nodes and pods once they are known. Other controllers may need them earlier."""
        nodes, pods = self._cache.nodes, self._cache.pods
        await nodes.synced.wait()
        await pods.synced.wait()
        self._observing = True
        nodes.observe(self._node)
        pods.observe(self._pod)
        for each in list(self._cache.workloads.values()):
            self._workload(None, each)

    async def reconcile(self, name: str) -> float | None:
        """Record the health of one node. Returns the seconds until the next pass, if any."""
        if not self._observing:
            return None  # It is added again when nodes and pods are known.
        view = self._view(name)
        if not undecided(view):
            await self._record_all(sorted(self._affected(name)), view)
        return recheck_in_s(view)

    def _view(self, name: str) -> NodeView:
        return NodeView(
            name=name,
            node=self._cache.nodes.get(Key("", name)),
            flavors=self._cache.flavor_objects(),
            gates=self._gates,
            now=self._clock.now().timestamp(),
        )

    def _affected(self, name: str) -> set[Key]:
        """Return the Workloads on a node, and those with pods that wait for it."""
        found = {each.key for each in self._cache.workloads.indexed(NODE, name)}
        late = (workload_pod(each) for each in self._cache.pods.indexed(FOR_NODE, name))
        return found | {Key(e.key.namespace, e.workload) for e in late if e.waits_for_node}

    async def _record_all(self, keys: list[Key], view: NodeView) -> None:
        """Record the health on Workloads. All of them are tried; the first failure is raised."""
        failures: list[Exception] = []
        for key in keys:
            try:
                await self._record(key, view)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _record(self, key: Key, view: NodeView) -> None:
        async with self._sender.locks.hold(key):
            stored = self._cache.stored_workload(key)
            if stored is None or stored.deleting or not affected_by_node_failures(stored):
                return
            found = verdict(view, stored.obj, self._pods_of(stored))
            await self._sender.send(recorded(stored, view.name, found.health, view.now).effects)
            after = self._cache.workload(key)
        evicted = after is None or after.value is None or not affected_by_node_failures(after.value)
        for pod in found.terminate if not evicted else ():
            await self._terminate(pod, view)

    def _pods_of(self, stored: StoredWorkload) -> list[WorkloadPod]:
        chain = Key(stored.key.namespace, chain_name(stored))
        return [workload_pod(each) for each in self._cache.pods.indexed(IN_CHAIN, str(chain))]

    async def _terminate(self, pod: WorkloadPod, view: NodeView) -> None:
        """Set a pod that cannot be bound to Failed, so that its job replaces it."""
        try:
            obj = await self._client.get(PODS, pod.key)
            found = workload_pod(obj)
            if found.uid != pod.uid or not found.waits_for_node:
                return
            status = terminated_status(msgspec.convert(obj, Pod), view.name, view.now)
            body = {"metadata": {"resourceVersion": found.version}, "status": status}
            answer = await self._client.patch(PODS, pod.key, body, subresource="status")
        except NotFound:
            return
        self._cache.pods.wrote(answer)
        note = terminated_note(view.name)
        self._sender.recorder.record(obj | _POD, TERMINATED_EVENT, note)

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        """Reconcile nodes that failed before the Workload was assigned to them."""
        names = _nodes(new) if new is not None else []
        if not names:
            return
        self._cache.nodes.need()
        self._cache.pods.need()
        if not self._observing or (old is not None and _nodes(old) == names):
            return
        for name in names:
            if may_have_failed(self._cache.nodes.get(Key("", name))):
                self.queue.add(name)

    def _node(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        changed = old is None or new is None or _state(old) != _state(new)
        if known is not None and changed:
            self.queue.add(known.metadata.name)

    def _pod(self, old: Json | None, new: Json | None) -> None:
        for name in _affected_nodes(new or old or {}, deleted=new is None):
            self.queue.add_after(name, BATCH_S)


_POD: Json = {"apiVersion": "v1", "kind": "Pod"}


def _nodes(cached: CachedObject[StoredWorkload]) -> list[str]:
    return assigned_nodes(cached.value) if cached.value is not None else []


def _state(node: Node) -> tuple[object, ...]:
    """Return what decides on the health of a node."""
    return node.status.conditions, node.spec.taints


def _affected_nodes(obj: Json, *, deleted: bool) -> Iterator[str]:
    """Yield the node that a placed pod waits for, or the one that it leaves."""
    if not topology_annotated(child(obj, "metadata", "annotations")):
        return
    pod = workload_pod(obj)
    if pod.hostname and not pod.node:
        yield pod.hostname
    if pod.node and (deleted or pod.deleting or pod.ended):
        yield pod.node
