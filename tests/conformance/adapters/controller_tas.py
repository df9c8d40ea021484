# SPDX-License-Identifier: Apache-2.0
"""Suites of the controllers around topology: gates of pods, failed nodes, and usage by pods."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from conformance.case import Json, Run, check, refused, same
from conformance.failing_api import FailingApi
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of, go_seconds
from control.objects import condition
from control.virtual import START, VirtualClock, played
from kuota.api.base import Key
from kuota.api.core import ENDED, Node, Pod, is_terminated
from kuota.api.podset import TOPOLOGY_GATE
from kuota.bridge.cached import cached_node
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.inbound_nodes import node as inbound_node
from kuota.bridge.inbound_nodes import placed_by_topology, pod_usage
from kuota.bridge.jobs.pod_gates import has_gate
from kuota.bridge.node_failures import (
    TERMINATED,
    TERMINATED_REASON,
    NodeHealth,
    NodeView,
    assigned_nodes,
    verdict,
)
from kuota.bridge.workload_pods import workload_pod
from kuota.control.cluster_cache import ClusterCache, followed
from kuota.control.effects import EffectSender
from kuota.control.node_failures import NodeFailures
from kuota.control.ungater import Ungater
from kuota.kube.errors import KubeError
from kuota.kube.events import EventRecorder
from kuota.kube.resources import PODS, WORKLOADS, key_of
from kuota.kube.workqueue import RetryLater

T = TypeVar("T")
_HEALTH = {0: NodeHealth.HEALTHY, 1: NodeHealth.FAILED}


@suite("controller/tas-TestIsTAS")
def placed(run: Run) -> None:
    same(run.expected["want"], placed_by_topology(convert(run.inputs["pod"], Pod)))


@suite("controller/tas-TestBelongsToNonTASCache")
def uses_node(run: Run) -> None:
    """Compare whether a pod is charged to its node."""
    pod = run.inputs.get("pod")
    same(run.expected["want"], pod is not None and pod_usage(convert(pod, Pod)) is not None)


@suite("controller/tas-TestPodUsageReconcilerCreate", "controller/tas-TestPodUsageReconcilerDelete")
def changes_usage(run: Run) -> None:
    """Compare whether the engine is told about a pod.

    Kueue also tracks the pods that it has placed, for a simulation of the scheduler, and looks
    again at ended pods, which were discharged when they ended. Kuota does neither.
    """
    pod = convert(run.inputs["pod"], Pod)
    wanted = run.expected["want"]
    passive = placed_by_topology(pod) or pod.status.phase in ENDED
    same(wanted and not passive, pod_usage(pod) is not None)


@suite("controller/tas-TestPodUsageReconcilerUpdatePredicate")
def updates_usage(run: Run) -> None:
    """Compare whether the engine is told about a change of a pod."""
    old, new = (pod_usage(convert(run.inputs[name], Pod)) for name in ("oldPod", "newPod"))
    same(run.expected["want"], old != new)


_ANNOTATIONS, _CONDITIONS, _TAINTS = 16, 8, 4


@suite("controller/tas-TestNodeHandler_Update")
def node_changed(run: Run) -> None:
    """Compare whether the engine is told about a change of a node.

    Kueue also retries placement after changes that it does not depend on: of annotations, of
    conditions other than Ready, and of the time when a taint was added.
    """
    old, new = whole(run.inputs["oldNode"]), whole(run.inputs["newNode"])
    bits: int = run.expected["wantChanged"] or 0
    bits &= ~_ANNOTATIONS
    if _ready(old) == _ready(new):
        bits &= ~_CONDITIONS
    if _taints(old) == _taints(new):
        bits &= ~_TAINTS
    same(bool(bits), inbound_node(cached_node(old)) != inbound_node(cached_node(new)))


def _ready(node: Json) -> str | None:
    return condition(node, "Ready").get("status")


def _taints(node: Json) -> list[Json]:
    return [each | {"timeAdded": None} for each in node.get("spec", {}).get("taints") or ()]


def _driven(
    run: Run,
    objects: Iterable[Json],
    act: Callable[[FailingApi, ClusterCache, EffectSender], Awaitable[T]],
) -> T:
    """Return what `act` returns with caches of these objects."""

    async def story() -> T:
        clock = VirtualClock()
        clock.skew_s = run.now - START.timestamp()
        api = FailingApi(clock)
        await api.hold(objects)
        world = ClusterCache(api, clock, [], gates=gates_of(run))
        sender = EffectSender(api, world, EventRecorder(api, "test", clock=clock))
        following = asyncio.create_task(followed(world))
        try:
            # A flavor with a topology makes them needed.
            world.nodes.need()
            world.pods.need()
            await world.ready()
            return await act(api, world, sender)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    return played(story())


async def _observing(controller: Ungater | NodeFailures) -> None:
    """Let a controller learn about all objects. Without relevant Workloads it needs no others."""
    controller.follow()
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    running.cancel()


@suite("controller/tas-TestReconcile", exercises=Exercise.PATH)
def ungated(run: Run) -> None:
    """Run one pass of the controller, and compare gates and node selectors of all pods."""
    pods = whole(run.inputs["pods"])
    workloads = whole(run.inputs["workloads"])
    unknown = bool(whole(run.expected["expectUIDs"]))

    async def act(api: FailingApi, world: ClusterCache, sender: EffectSender) -> str | None:
        ungater = Ungater(api, world, sender, VirtualClock(), gates_of(run))
        await _observing(ungater)
        if unknown:
            await _fail_once(api, ungater, key_of(workloads[0]))
        fault: str | None = None
        try:
            for each in workloads:
                await ungater.reconcile(key_of(each))
        except (KubeError, RetryLater) as error:
            fault = str(error)
        stored.extend(api.all(PODS))
        return fault

    stored: list[Json] = []
    refused(run.expected["wantErr"], _driven(run, [*pods, *workloads], act))
    wanted = whole(run.expected["wantPods"]) or []
    exact = run.inputs["nodeSelectorAssertMode"] == "Exact"
    same(_pods(wanted, selectors=exact), _pods(stored, selectors=exact))
    if run.expected["wantCounts"] is not None:
        same(_wanted_counts(whole(run.expected["wantCounts"])), _counts(stored))


async def _fail_once(api: FailingApi, ungater: Ungater, key: Key) -> None:
    """Let a write fail with an unknown outcome, and keep the API server from telling it."""
    api.unwritable.update(each["metadata"]["name"] for each in api.all(PODS))
    api.unreadable.update(each["metadata"]["name"] for each in api.all(PODS))
    try:
        await ungater.reconcile(key)
    except KubeError:
        api.unwritable.clear()
        return
    check(False, "a failed write must fail the pass")


def _pods(pods: Iterable[Json], *, selectors: bool) -> list[Json]:
    """Return what a pass may change about pods, and what identifies them."""
    return [
        {
            "name": each["metadata"]["name"],
            "labels": each["metadata"].get("labels"),
            "annotations": each["metadata"].get("annotations"),
            "gates": each["spec"].get("schedulingGates"),
            "selector": each["spec"].get("nodeSelector") if selectors else None,
            "phase": (each.get("status") or {}).get("phase"),
        }
        for each in sorted(pods, key=key_of)
    ]


def _counts(pods: Iterable[Json]) -> list[Json]:
    """Return how many pods were sent to each domain and did not end."""
    sent = [e for e in pods if not has_gate(e, TOPOLOGY_GATE) and not is_terminated(e)]
    found = Counter(_selector(each["spec"].get("nodeSelector")) for each in sent)
    return [{"nodeSelector": dict(key), "count": count} for key, count in sorted(found.items())]


def _wanted_counts(counts: Iterable[Json]) -> list[Json]:
    found = {_selector(each.get("nodeSelector")): each["count"] for each in counts}
    return [{"nodeSelector": dict(key), "count": count} for key, count in sorted(found.items())]


def _selector(selector: Json | None) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((selector or {}).items()))


@suite("workload/workload-TestUsedNodes")
def used_nodes(run: Run) -> None:
    """Compare the nodes whose failures concern a Workload."""
    found = assigned_nodes(StoredWorkload.of(whole(run.inputs["wl"])))
    same(sorted(whole(run.expected["want"]) or ()), sorted(found))


@suite("controller/tas-TestNodeFailureReconciler", exercises=Exercise.PATH)
def node_failures(run: Run) -> None:
    """Run the passes of the controller, and compare the Workload and its pods."""
    objects = [_stamped(each) for each in whole(run.inputs["initObjs"])]
    shared = run.inputs["shared"]
    key = Key(shared["wlKey"]["namespace"], shared["wlKey"]["name"])
    same((shared["nsName"], shared["wlName"]), (key.namespace, key.name))
    check(bool(shared["nodeName"] and shared["testStartTime"]), "the record names both")

    async def act(
        api: FailingApi, world: ClusterCache, sender: EffectSender
    ) -> tuple[Json, float | None, bool]:
        clock = VirtualClock()
        controller = NodeFailures(api, world, sender, clock, gates_of(run))
        await _observing(controller)
        clock.skew_s = run.now - START.timestamp() - clock.monotonic()
        if run.inputs["injectPatchError"]:
            api.unwritable.add(key.name)
        after_s, failed = None, False
        for request in run.inputs["reconcileRequests"]:
            same("", request["namespace"])
            try:
                after_s = await controller.reconcile(request["name"])
            except KubeError:
                failed = True
        for name in run.expected["wantPatchedPods"] or ():
            _same_terminated(api.find(PODS, name, key.namespace))
        return api.find(WORKLOADS, key.name, key.namespace) or {}, after_s, failed

    flavor = whole(shared["baseResourceFlavor"])
    workload, after_s, failed = _driven(run, [flavor, *objects], act)
    refused(run.expected["wantError"], failed)
    same(go_seconds(run.expected["wantRequeue"]), after_s or 0.0)
    status = workload.get("status") or {}
    evicted = condition(workload, "Evicted")
    same(_essence(whole(run.expected["wantEvictedCond"])), _essence(evicted))
    # Where the record ignores them they are cleared, which the test's client cannot do.
    wanted = whole(run.expected["wantUnhealthyNodes"])
    if run.inputs["ignoreUnhealthyNodes"]:
        same(None, wanted)
    same(wanted, status.get("unhealthyNodes"))


def _stamped(obj: Json) -> Json:
    """Return an object that the API server accepts: checks have a time."""
    checks = (obj.get("status") or {}).get("admissionChecks") or ()
    for each in checks:
        each["lastTransitionTime"] = each.get("lastTransitionTime") or "2026-01-02T03:04:05Z"
    return obj


def _essence(found: Json | None) -> Json:
    return {name: (found or {}).get(name) for name in ("type", "status", "reason")}


def _same_terminated(pod: Json | None) -> None:
    check(pod is not None, "the pod must exist")
    same("Failed", (pod or {})["status"]["phase"])
    found = condition(pod or {}, TERMINATED)
    same(("True", TERMINATED_REASON), (found.get("status"), found.get("reason")))


@suite("controller/tas-TestGetWorkloadStatus")
def health(run: Run) -> None:
    """Compare the health of a node for one Workload."""
    objects, shared = whole(run.inputs["initObjs"]), whole(run.inputs["shared"])
    stored = [each for each in objects if each["kind"] == "Workload"]
    pods = [workload_pod(each) for each in objects if each["kind"] == "Pod"]
    view = NodeView(
        name=run.inputs["nodeName"],
        node=convert(run.inputs["node"], Node),
        flavors={},
        gates=gates_of(run),
        now=run.now,
    )
    same([shared["wlKey"]["name"]] * len(stored), [each["metadata"]["name"] for each in stored])
    if not stored:
        # Without its Workload, nothing depends on a node.
        same((0, None), (run.expected["wantStatus"], whole(run.expected["wantDeleted"])))
        return
    found = verdict(view, StoredWorkload.of(stored[0]).obj, pods)
    failed = found.health is NodeHealth.FAILED
    same(_HEALTH[run.expected["wantStatus"]] is NodeHealth.FAILED, failed)
    same(run.expected["wantDeleted"], [each.key.name for each in found.terminate])
