# SPDX-License-Identifier: Apache-2.0
"""Follows the objects of a server: quota, domains, and the order of pending workloads. Pure.

Objects are JSON in the current version. Nothing is decided here: usage is what the status of
Workloads says. Objects that cannot be read do not count; their JSON is still available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import pack
from typing import Any, NamedTuple

import msgspec

from kuota.api import core, kueue
from kuota.api import workload as api
from kuota.api.base import Json, Key
from kuota.api.gates import Gate
from kuota.api.podset import WORKLOAD_ANNOTATION
from kuota.api.resources import pod_amounts
from kuota.bridge import inbound, inbound_nodes
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.engine import model
from kuota.engine.amounts import Requests
from kuota.engine.consumed_usage import weighted_usage
from kuota.engine.policy import Policy
from kuota.engine.ranking import queue_timestamp
from kuota.engine.state import State

from .links import (
    chain,
    cluster_queue_of,
    has_failed,
    local_queue_key,
    marks,
    object_key,
    owner_uids,
    recency,
    spec_of,
    uid_of,
)
from .workload_state import preemptor_uid

Keys = frozenset[Key]
NO_ROWS: Keys = frozenset()
_PRIORITY_OFFSET = 2**40
_UNREADABLE = (ValueError, TypeError, LookupError)

KINDS = (
    *("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology", "AdmissionCheck"),
    *("WorkloadPriorityClass", "Node", "Pod", "Workload"),
)
"""The kinds to follow. Pods are needed for nodes and topologies, and for why jobs failed."""


class ObservedState:
    """The objects of one server by kind and key, and the `State` that follows from them.

    `put` and `drop` return the Workloads that look different afterwards, so that a caller renders
    only those again. With `charges_inactive`, as on one machine, a deactivated Workload is charged
    until its reservation is cleared. `bound` has what pods request, by node. `policy` is that of
    the server's scheduler: it determines the order of pending workloads.
    """

    def __init__(self, policy: Policy | None = None, *, charges_inactive: bool = False) -> None:
        self.policy = policy or Policy()
        overlapping = self.policy.on(Gate.TASHandleOverlappingFlavors)
        self.state = State(overlapping=overlapping)
        self.objects: dict[str, dict[Key, Json]] = {kind: {} for kind in KINDS}
        self._charges_inactive = charges_inactive
        self._accounting = AccountingContext(gates=self.policy.gates)
        self._pending: dict[Key, model.Workload] = {}
        self._by_uid: dict[str, Key] = {}
        self._by_owner: dict[str, dict[Key, None]] = {}
        self._by_queue: dict[Key, dict[Key, None]] = {}
        self._by_preemptor: dict[str, dict[Key, None]] = {}
        self.bound: dict[str, dict[Key, Requests]] = {}
        self._pods: dict[str | Key, dict[Key, None]] = {}

    @classmethod
    def of(cls, objects: Iterable[Json], policy: Policy | None = None) -> ObservedState:
        """Return the state of a fixed set of objects."""
        found = cls(policy)
        for each in objects:
            found.put(each)
        return found

    def put(self, obj: Json) -> Keys:
        """Store the newest state of an object of one of `KINDS`. Other kinds are ignored."""
        kind, key = str(obj.get("kind")), object_key(obj)
        known = self.objects.get(kind)
        if known is None:
            return NO_ROWS
        before = known.get(key)
        known[key] = obj
        return _KINDS[kind](self, key, before, obj)

    def drop(self, kind: str, key: Key) -> Keys:
        """Forget a deleted object."""
        known = self.objects.get(kind)
        before = known.pop(key, None) if known is not None else None
        return _KINDS[kind](self, key, before, None) if before is not None else NO_ROWS

    @property
    def workloads(self) -> Mapping[Key, Json]:
        return self.objects["Workload"]

    def workload_model(self, key: Key) -> model.Workload | None:
        """Return a Workload as the engine sees it; None if it is unknown or cannot be read.

        Only one that is charged has a reservation.
        """
        found = self.state.workloads.get(key) or _read(self._model, self.workloads.get(key))
        if found is None or key in self.state.workloads:
            return found
        return msgspec.structs.replace(found, reservation=None)

    def workload_by_uid(self, uid: str) -> Json | None:
        """Return the Workload with this UID; None if it is unknown."""
        key = self._by_uid.get(uid)
        return self.workloads.get(key) if key is not None else None

    def preempted_by(self, uid: str) -> list[Json]:
        """Return the Workloads that the one with this UID was the last to preempt."""
        return [self.workloads[key] for key in self._by_preemptor.get(uid, ())]

    def workload_of_owner(self, uid: str, namespace: str) -> Json | None:
        """Return the Workload of the job with this UID: the newest one that has not finished."""
        keys = _within(namespace, self._by_owner.get(uid, ()))
        found = [self.workloads[key] for key in keys]
        return max(found, key=recency, default=None)

    def pods_of(self, workload: Json) -> list[Json]:
        """Return the pods of a Workload: of its job, annotated with its name, or its owners."""
        own = object_key(workload)
        found: list[str | Key] = [*owner_uids(workload), chain(workload, own.name)]
        keys = dict.fromkeys(key for each in found for key in self._pods.get(each, ()))
        return [self.objects["Pod"][key] for key in _within(own.namespace, keys)]

    def failed_pods(self, workload: Json) -> list[Json]:
        """Return the failed pods of the workload's job."""
        keys = (key for uid in owner_uids(workload) for key in self._pods.get(uid, ()))
        own = _within(object_key(workload).namespace, keys)
        return [pod for key in own if has_failed(pod := self.objects["Pod"][key])]

    def workload_of_pod(self, pod: Json) -> Json | None:
        """Return the Workload of a pod: the one that it names, or that of its job; else None."""
        metadata, place = pod["metadata"], object_key(pod).namespace
        named = str((metadata.get("annotations") or {}).get(WORKLOAD_ANNOTATION) or "")
        found = self.workloads.get(Key(place, named))
        owners = (self.workload_of_owner(uid, place) for uid in (*owner_uids(pod), uid_of(pod)))
        return found or next((each for each in owners if each is not None), None)

    def cluster_queue_of(self, workload: Json) -> str:
        """Return the ClusterQueue of a Workload; "" if its LocalQueue does not exist."""
        return cluster_queue_of(workload, self.objects["LocalQueue"])

    def order(self, key: Key) -> str:
        """Return what sorts a pending workload within its ClusterQueue; "" if it is not queued.

        Texts compare as the scheduler orders: by usage of the LocalQueue if the ClusterQueue uses
        admission fair sharing, then by priority, by time, and by UID.
        """
        workload = self._pending.get(key)
        local = self.state.local_queues.get(workload.local_queue) if workload is not None else None
        if workload is None or local is None or local.stop_policy not in ("", "None"):
            return ""
        queue = self.state.queues.get(local.cluster_queue)
        if queue is None or (queue.spec.concurrent_admission and not workload.parent_uid):
            return ""
        stamp = round(queue_timestamp(workload, self.policy) * 1_000_000)
        use = self._use(local) if queue.spec.usage_based else ""
        return f"{use}{_PRIORITY_OFFSET - workload.priority:013d}{stamp:017d}{workload.uid}{key}"

    def _use(self, local: model.LocalQueue) -> str:
        """Return the usage of a LocalQueue as text. Bits of positive numbers sort as numbers do."""
        settings = self.policy.admission_fair_sharing
        if settings is None or not self.policy.on(Gate.AdmissionFairSharing):
            return ""
        amounts = (local.consumed or {},)
        use = weighted_usage(amounts, settings.resource_weights, local.weight)
        return pack(">d", max(0.0, use)).hex()

    def _workload(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        if before is not None:
            self._unlink(key, before)
        if after is not None:
            self._link(key, after)
        found = _read(self._model, after)
        held = found is not None and found.charged
        if held and found is not None:
            self.state.workloads[key] = found
            self.state.record(found)
        elif self.state.workloads.pop(key, None) is not None:
            self.state.discharge(key)
        self._pending.pop(key, None)
        if found is not None and found.queueable:
            self._pending[key] = found
        uids = {uid_of(each) for each in (before, after) if each is not None}
        if len(uids) == 1 and before is not None and after is not None:
            return frozenset({key})
        # Rows of workloads that it preempted name it only while it exists.
        return frozenset({key, *(one for uid in uids for one in self._by_preemptor.get(uid, ()))})

    def _model(self, obj: Json) -> model.Workload:
        found = inbound_workload(msgspec.convert(obj, api.Workload), self._accounting)
        if self._charges_inactive and found.reservation is not None and not found.active:
            return msgspec.structs.replace(found, active=True)
        return found

    def _link(self, key: Key, obj: Json) -> None:
        self._by_uid[uid_of(obj)] = key
        if by := preemptor_uid(obj):
            self._by_preemptor.setdefault(by, {})[key] = None
        self._by_queue.setdefault(local_queue_key(obj), {})[key] = None
        for uid in owner_uids(obj):
            self._by_owner.setdefault(uid, {})[key] = None

    def _unlink(self, key: Key, obj: Json) -> None:
        self._by_uid.pop(uid_of(obj), None)
        _remove(self._by_preemptor, preemptor_uid(obj), key)
        _remove(self._by_queue, local_queue_key(obj), key)
        for uid in owner_uids(obj):
            _remove(self._by_owner, uid, key)

    def _cluster_queue(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound.cluster_queue, after, kueue.ClusterQueue)
        known = self._ordering(key.name)
        if found is not None:
            self.state.put_queue(found)
        else:
            self.state.drop_queue(key.name)
        changed = known != self._ordering(key.name)
        return self._rows_of_queue(key.name) if changed else NO_ROWS

    def _ordering(self, name: str) -> tuple[bool, bool] | None:
        """Return how a ClusterQueue orders workloads; None if it does not exist."""
        queue = self.state.queues.get(name)
        if queue is None:
            return None
        return queue.spec.usage_based, queue.spec.concurrent_admission is not None

    def _rows_of_queue(self, name: str) -> Keys:
        local = [
            each.key for each in self.state.local_queues.values() if each.cluster_queue == name
        ]
        return frozenset(key for each in local for key in self._by_queue.get(each, ()))

    def _local_queue(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound.local_queue, after, kueue.LocalQueue)
        known = self.state.local_queues.pop(key, None)
        if found is not None:
            self.state.local_queues[key] = found
        same = found == known and spec_of(before) == spec_of(after)
        return NO_ROWS if same else frozenset(self._by_queue.get(key, ()))

    def _cohort(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound.cohort, after, kueue.Cohort)
        if found is not None:
            self.state.put_cohort(found)
        else:
            self.state.drop_cohort(key.name)
        return NO_ROWS

    def _flavor(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound.flavor, after, kueue.ResourceFlavor)
        if found is not None:
            self.state.put_flavor(found)
        else:
            self.state.drop_flavor(key.name)
        return NO_ROWS

    def _topology(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound.topology, after, kueue.Topology)
        if found is not None:
            self.state.put_topology(found)
        else:
            self.state.drop_topology(key.name)
        return NO_ROWS

    def _node(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        found = _read(inbound_nodes.node, after, core.Node)
        if found is not None:
            self.state.domains.put(found)
        else:
            self.state.domains.drop(key)
        return NO_ROWS

    def _pod(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        self._bind(key, before, _read(_bound_pod, after))
        for mark in marks(before):
            _remove(self._pods, mark, key)
        for mark in marks(after):
            self._pods.setdefault(mark, {})[key] = None
        told = [
            (each or {}).get("status") if has_failed(each) else None for each in (before, after)
        ]
        if told[0] == told[1]:
            return NO_ROWS
        owners = owner_uids(after or before or {})
        rows = (one for uid in owners for one in self._by_owner.get(uid, ()))
        return frozenset(_within(key.namespace, rows))

    def _bind(self, key: Key, before: Json | None, found: _BoundPod | None) -> None:
        """Note what a pod uses on its node. Topologies count only pods that none of them places."""
        was_on = ((before or {}).get("spec") or {}).get("nodeName")
        _remove(self.bound, was_on, key)
        if found is None:
            if was_on:
                self.state.domains.drop(key)
            return
        self.bound.setdefault(found.node, {})[key] = found.requests
        if not found.placed:
            used = model.PodUsage(key=key, node=found.node, requests=found.requests)
            self.state.domains.put(used)

    def _unused(self, key: Key, before: Json | None, after: Json | None) -> Keys:
        return NO_ROWS


_Follow = Callable[[ObservedState, Key, Json | None, Json | None], Keys]
_KINDS: dict[str, _Follow] = {
    "Workload": ObservedState._workload,
    "ClusterQueue": ObservedState._cluster_queue,
    "LocalQueue": ObservedState._local_queue,
    "Cohort": ObservedState._cohort,
    "ResourceFlavor": ObservedState._flavor,
    "Topology": ObservedState._topology,
    "Node": ObservedState._node,
    "Pod": ObservedState._pod,
    "AdmissionCheck": ObservedState._unused,
    "WorkloadPriorityClass": ObservedState._unused,
}


def _read(convert: Callable[[Any], Any], obj: Json | None, shape: Any = None) -> Any:
    """Return the object as the engine sees it; None if it was deleted or cannot be read."""
    try:
        if obj is None:
            return None
        return convert(msgspec.convert(obj, shape) if shape is not None else obj)
    except _UNREADABLE:
        return None


def _within(namespace: str, keys: Iterable[Key]) -> Iterator[Key]:
    """Yield the keys of the namespace. An owner in another one is invented."""
    return (key for key in keys if key.namespace == namespace)


def _remove(index: dict[Any, dict[Key, Any]], at: object, key: Key) -> None:
    found = index.get(at)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[at]


class _BoundPod(NamedTuple):
    node: str
    requests: Requests
    placed: bool


def _bound_pod(pod: Json) -> _BoundPod | None:
    """Return what a pod uses on its node; None if it is not bound, or has ended."""
    if not (pod.get("spec") or {}).get("nodeName") or core.is_terminated(pod):
        return None
    read = msgspec.convert(pod, core.Pod)
    placed = inbound_nodes.placed_by_topology(read)
    return _BoundPod(read.spec.node_name, pod_amounts(read.spec), placed)
