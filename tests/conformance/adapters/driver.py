# SPDX-License-Identifier: Apache-2.0
"""Suites on failing writes: the driver and its engine with a fake API server."""

from __future__ import annotations

from conformance.case import Json, Run, check, same
from conformance.failing_api import FailingApi, after
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from control.objects import condition, flavor, local_queue, namespace, queue
from kuota.api.base import Key
from kuota.control.system import System
from kuota.kube.resources import EVENTS, WORKLOADS

PREEMPTION = {"withinClusterQueue": "LowerPriority"}


@suite(
    "scheduler/TestEntryMarkPreemptionOutcome",
    exercises=Exercise.PATH,
    ignores={"inputs.inadmissibleMsg": "the start of a message, and messages are Kuota's own"},
)
def preemption_outcome(run: Run) -> None:
    """A preemptor with as many victims as are preempted or fail, and one that is leaving already.

    Which way it is requeued shows in what happens next: it waits for those that go, or tries again
    those that could not be written.
    """
    errors = [f"stuck-{number}" for number in range(run.inputs["errors"])]
    preempted = [f"victim-{number}" for number in range(run.inputs["preempted"])]
    names = [*errors, *preempted, "leaving"]
    objects = [namespace("team"), flavor(), queue("cq", len(names), preemption=PREEMPTION)]
    objects += [local_queue(), *(_running(each) for each in names)]
    objects.append(_workload("preemptor", str(len(names)), priority=9))

    def look(api: FailingApi, system: System) -> tuple[str, bool]:
        evicted = [name for name in (*errors, *preempted) if _evicted(api, name)]
        same(preempted, evicted, ".preempted")
        check((api.refused > len(errors)) == bool(errors), "failed evictions must be tried again")
        reason = "PendingPreemption" if evicted else "PreemptionFailed" if api.refused else ""
        pending = system.engine.queues.take(Key("team", "preemptor"), lambda name: True)
        return reason, pending is not None and pending.progress is None

    reason, forgotten = after(objects, lambda api: api.unwritable.update(errors), look)
    same(run.expected["wantRequeueReason"], reason, ".requeueReason")
    same(run.expected["wantLastAssignmentNil"], forgotten, ".lastAssignmentNil")


def _evicted(api: FailingApi, name: str) -> bool:
    return condition(api.find(WORKLOADS, name) or {}, "Evicted").get("status") == "True"


def _workload(name: str, cpu: str, *, priority: int = 0) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"queueName": "main", "priority": priority, "podSets": [pod_set]},
    }


def _running(name: str) -> Json:
    """A workload that holds one CPU, admitted; the one named `leaving` is evicted already."""
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "default"}}
    admission = {
        "clusterQueue": "cq",
        "podSetAssignments": [assignment | {"resourceUsage": {"cpu": "1"}}],
    }
    held = [_true("QuotaReserved"), _true("Admitted")]
    held += [_true("Evicted")] if name == "leaving" else []
    return _workload(name, "1") | {"status": {"admission": admission, "conditions": held}}


def _true(type_: str) -> Json:
    return {
        "type": type_,
        "status": "True",
        "reason": "Preempted" if type_ == "Evicted" else type_,
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def failing_pass(run: Run) -> None:
    """A pass over a Workload whose writes fail: it changes nothing, and is tried again."""
    workload, objects = whole(run.inputs["workload"]), whole(run.inputs["apiObjects"])
    name = workload["metadata"]["name"]
    retention = whole(run.inputs["reconcilerOpts"]).get("workloadRetention")
    config = {"objectRetentionPolicies": {"workloads": retention}} if retention else {}

    def look(api: FailingApi, system: System) -> tuple[Json, list[Json], int]:
        left = api.find(WORKLOADS, name, workload["metadata"]["namespace"]) or {}
        return left, api.all(EVENTS), api.refused

    left, events, refusals = after(
        objects,
        lambda api: api.unwritable.add(name),
        look,
        config=config,
        gates=gates_of(run),
    )
    same(run.inputs["patchErr"]["error"], "test error")
    deleting = run.inputs["shouldDeleteCQ"] or run.inputs["shouldDeleteLQ"]
    check(not deleting, "queues that are being deleted are not fed to the driver")
    check((refusals > 1) == bool(whole(run.expected["wantError"])), "the pass must be tried again")
    same(run.expected["wantResult"], {"requeue": False, "requeueAfter": "0s"}, ".result")
    same(run.expected["wantEvents"], events, ".events")
    same(run.expected["wantWorkloadsInQueue"], None)
    wanted = whole(run.expected["wantWorkload"])
    same(wanted["status"], left.get("status"), ".status")
    for field in ("finalizers", "labels"):
        same(wanted["metadata"].get(field), left["metadata"].get(field), f".metadata.{field}")


def unknown_weight() -> bool:
    """Whether the engine knows no LocalQueue while listing them fails, which is tried again."""
    return after(
        [namespace("team"), flavor(), queue("cq"), local_queue()],
        lambda api: api.unlisted.add("LocalQueue"),
        lambda api, system: api.refused > 1 and not system.engine.state.local_queues,
        seconds=60,
    )
