# SPDX-License-Identifier: Apache-2.0
"""A fake API server around the engine: stores Workloads, applies effects, records events."""

from __future__ import annotations

from collections import Counter

import msgspec

from kuota.api import core
from kuota.api import workload as api
from kuota.api.base import Key
from kuota.api.merge_patch import merged
from kuota.api.quantity import parse
from kuota.api.resources import Transformation
from kuota.bridge import inbound_nodes
from kuota.bridge.effects import Effect, Event, Patch, StatusPatch
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.outbound import Outbound
from kuota.engine import model
from kuota.engine.decisions import Admit, CycleResult, Decision, Evict
from kuota.engine.engine import Engine
from kuota.engine.facts import (
    AdmissionFailed,
    EngineObject,
    EvictionFailed,
    Fact,
    ObjectDeleted,
    ObjectStored,
)
from kuota.engine.pending import PendingState

from . import world
from .case import Json, Run, check
from .recorder import convert, whole

_READ = {"LimitRange", "RuntimeClass"}


def _accounting(run: Run) -> AccountingContext:
    """How the pods of the case are counted, given its other API objects and transformations."""
    objects = whole(run.inputs.get("objects")) or []
    strange = sorted({each["kind"] for each in objects} - _READ)
    check(not strange, f"objects of kind {strange} are not fed to Kuota")
    accounting = world.accounting_of(objects, world.gates_of(run))
    listed = whole(run.inputs.get("resourceTransformations")) or []
    transformations = convert({each["input"]: each for each in listed}, dict[str, Transformation])
    return msgspec.structs.replace(accounting, transformations=transformations)


class Cluster:
    """Everything a case describes, ready to run cycles at the instant of the case."""

    def __init__(self, run: Run) -> None:
        self.now = run.now
        self._fails = bool(
            whole(run.inputs.get("admissionError")) or whole(run.inputs.get("patchStatusErr"))
        )
        self.engine = Engine(world.policy_of(run))
        self._accounting = _accounting(run)
        self._objects: dict[Key, Json] = {}
        self._outbound = Outbound(world.gates_of(run), self._workload)
        self.events: list[Json] = []
        self.status_patches = 0
        self.skipped: Counter[str] = Counter()
        self.recomputed: Counter[tuple[str, str]] = Counter()
        self._charged: list[Key] = []
        self._load(run)

    def _load(self, run: Run) -> None:
        for name, decode in (
            ("namespaces", world.namespace),
            ("resourceFlavors", world.flavor),
            ("topologies", world.topology),
            ("admissionChecks", world.admission_check),
            ("clusterQueues", world.cluster_queue),
            ("cohorts", world.cohort),
            ("localQueues", world.local_queue),
        ):
            for obj in world.each(run, name):
                self.put(decode(obj))
        self._load_nodes(run)
        self._remember(run, run.inputs.get("initialUsage") or {})
        for obj in world.each(run, "workloads"):
            self.store(obj)
        # `deleteQueue` is deleted in the API server just before the cycle: the watch has not told.

    def _load_nodes(self, run: Run) -> None:
        for obj in world.each(run, "nodes"):
            self.put(inbound_nodes.node(convert(obj, core.Node)))
        for obj in world.each(run, "pods"):
            usage = inbound_nodes.pod_usage(convert(obj, core.Pod))
            if usage is not None:
                self.put(usage)

    def _remember(self, run: Run, usage: dict[str, Json]) -> None:
        """Give LocalQueues, by bare name, the use they are said to have had."""
        for obj in world.each(run, "localQueues"):
            queue = world.local_queue(obj)
            used = usage.get(queue.key.name)
            if used is not None:
                nanos = {name: parse(quantity) for name, quantity in used.items()}
                self.engine.apply(ObjectDeleted(kind=model.LocalQueue, key=queue.key), self.now)
                known = msgspec.structs.replace(queue, consumed=nanos)
                self.engine.apply(ObjectStored(value=known), self.now)

    def put(self, value: EngineObject) -> None:
        self.engine.apply(ObjectStored(value=value), self.now)

    def store(self, obj: Json) -> None:
        obj = whole(obj)
        decoded = convert(obj, api.Workload)
        self._objects[decoded.key] = obj
        self.engine.apply(ObjectStored(value=inbound_workload(decoded, self._accounting)), self.now)

    def delete(self, namespace: str, name: str) -> None:
        key = Key(namespace, name)
        del self._objects[key]
        self.engine.apply(ObjectDeleted(kind=model.Workload, key=key), self.now)

    def cycle(self) -> CycleResult:
        outcome = self.engine.cycle(self.now)
        # Upstream looks at its cache before the watch has brought the effects back.
        self._charged = [k for k in self._objects if self.engine.state.running(k) is not None]
        self.skipped.update(outcome.skipped_preemptions)
        self.recomputed.update(outcome.recomputations)
        for decision in outcome.decisions:
            failure = self._failure(decision)
            if failure is not None:
                self.engine.apply(failure, self.now)
            else:
                self.write(decision)
        return outcome

    def _failure(self, decision: Decision) -> Fact | None:
        """Return how the driver reports that the decision cannot be written, if it cannot."""
        if self._fails and isinstance(decision, Admit):
            return AdmissionFailed(key=decision.workload.key)
        if self._fails and isinstance(decision, Evict):
            return EvictionFailed(key=decision.workload.key)
        return None

    def write(self, decision: Decision) -> None:
        for effect in self._outbound.effects(decision, self.now):
            self._make_true(effect)

    def _make_true(self, effect: Effect) -> None:
        if isinstance(effect, Event):
            self.events.append(
                {
                    "namespace": effect.key.namespace,
                    "name": effect.key.name,
                    "reason": effect.reason,
                    "type": "Warning" if effect.warning else "Normal",
                }
            )
            return
        obj = self._objects[effect.key]
        if isinstance(effect, Patch):
            # Annotations of our own are none of what Kueue writes.
            assert effect.body["metadata"].keys() == {"annotations"}
            assert all(
                name.startswith("kuota.dev/") for name in effect.body["metadata"]["annotations"]
            )
            return
        assert isinstance(effect, StatusPatch)
        self.status_patches += 1
        self.store(obj | {"status": merged(obj.get("status") or {}, effect.status)})

    def _workload(self, key: Key) -> api.Workload | None:
        obj = self._objects.get(key)
        return convert(obj, api.Workload) if obj is not None else None

    def workloads(self) -> list[Json]:
        return list(self._objects.values())

    def assignments(self) -> dict[str, Json]:
        """The admission of every workload that holds quota."""
        return {
            str(key): obj["status"]["admission"]
            for key, obj in self._objects.items()
            if key in self._charged and obj["status"].get("admission")
        }

    def left(self) -> dict[str, list[str]]:
        return self._in_place(PendingState.HEAP)

    def inadmissible(self) -> dict[str, list[str]]:
        return self._in_place(PendingState.INADMISSIBLE)

    def _in_place(self, place: PendingState) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self._objects:
            queue = self.engine.queues.queue_of(key)
            if queue is not None and queue.state(key) is place:
                found.setdefault(queue.name, []).append(str(key))
        return found
