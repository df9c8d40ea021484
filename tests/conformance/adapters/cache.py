# SPDX-License-Identifier: Apache-2.0
"""Suites of group `cache` about ClusterQueues: activity, usage, and references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from conformance import world
from conformance.case import Json, Run, check, same
from conformance.cluster import Cluster
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from kuota.api import kueue as api
from kuota.bridge.changes import checks_of
from kuota.bridge.queue_status import active_condition, admitted, flavors_json, reserved
from kuota.engine.activity import flavor_names
from kuota.engine.facts import ObjectStored
from kuota.engine.model import AdmissionCheck, ClusterQueue
from kuota.engine.snapshot import Queue
from kuota.engine.state import State
from kuota.engine.topology.cluster import ClusterCapacity as Nodes
from kuota.engine.tree import QuotaNode


def _state(run: Run) -> State:
    return Cluster(run).engine.state


@suite("cache/TestClusterQueueReadiness")
def readiness(run: Run) -> None:
    state, expected = _state(run), run.expected
    name, terminate = run.inputs["clusterQueueName"], run.inputs["terminate"]
    queue = state.queues.get(name)
    if queue is not None and terminate:
        state.put_queue(msgspec.structs.replace(queue.spec, deleting=True))
    status, reason = False, "NotFound"
    if queue is not None:
        status, reason, _ = active_condition(state.obstacles[name])
    same(expected["wantReason"], reason, ".reason")
    same(expected["wantStatus"], str(status), ".status")
    same(expected["wantActive"], state.is_schedulable(name), ".active")
    same(expected["wantTerminating"], queue is not None and queue.spec.deleting, ".terminating")


@suite(
    "cache/TestClusterQueueReadinessWithTAS",
    exercises=Exercise.PATH,
    ignores={
        "expected.wantStatus": "the test does not compare it, and the records leave it empty",
    },
)
def readiness_with_topology(run: Run) -> None:
    topologies = whole(run.inputs["topologies"])
    cluster = Cluster(_with(run, topologies=[] if run.inputs["skipTopology"] else topologies))
    state = cluster.engine.state
    for name in ("cq", "updatedCq"):
        if run.inputs.get(name):
            state.put_queue(world.cluster_queue(run.inputs[name]))
    _, reason, _ = active_condition(state.obstacles["cq"])
    check(run.expected["wantReason"] == reason, f"reason: got {reason}")


def _with(run: Run, **inputs: Any) -> Run:
    """The run with some inputs replaced."""
    return replace(run, inputs=run.inputs | inputs)


@suite("cache/TestClusterQueueUpdateWithAdmissionCheck")
def checks_of_a_queue(run: Run) -> None:
    state = State()
    for name, given in run.inputs["admissionChecks"].items():
        state.put_check(
            AdmissionCheck(name=name, controller=given["controller"], active=given["active"])
        )
    spec = _deleting(world.cluster_queue(run.inputs["cq"]), run.inputs["cqStatus"])
    state.put_queue(spec)
    _, reason, _ = active_condition(state.obstacles[spec.name])
    check(run.expected["wantReason"] == reason, f"reason: got {reason}")
    check(run.expected["wantStatus"] == _word(state, spec), f"status: got {_word(state, spec)}")


@suite("cache/TestClusterQueueUpdateWithFlavors")
def flavors_of_a_queue(run: Run) -> None:
    state = State()
    for obj in (run.inputs.get("flavors") or {}).values():
        state.put_flavor(world.flavor(obj))
    spec = _deleting(world.cluster_queue(run.inputs["clusterQueues"][0]), run.inputs["curStatus"])
    state.put_queue(spec)
    check(run.expected["wantStatus"] == _word(state, spec), f"status: got {_word(state, spec)}")


def _deleting(spec: ClusterQueue, status: str) -> ClusterQueue:
    return msgspec.structs.replace(spec, deleting=status == "terminating")


def _word(state: State, spec: ClusterQueue) -> str:
    if spec.deleting:
        return "terminating"
    return "active" if state.is_schedulable(spec.name) else "pending"


@suite("cache/TestClusterQueueUpdate")
def generations(run: Run) -> None:
    state = _state(run)
    for name in ("cq", "newcq"):
        state.put_queue(world.cluster_queue(run.inputs[name]))
    got = next(iter(state.queues.values())).node.generation
    check(run.expected["wantLastAssignmentGeneration"] == got, f"generation: got {got}")


@suite("cache/TestClusterQueueUsage")
def queue_usage(run: Run) -> None:
    (queue,) = _state(run).queues.values()
    expected = run.expected
    held, used = reserved(queue), admitted(queue)
    same(expected["wantReservedResources"], flavors_json(held, shared=True), "reserved")
    same(expected["wantUsedResources"], flavors_json(used, shared=True), "used")
    check(expected["wantReservingWorkloads"] == held.workloads, f"reserving: {held.workloads}")
    check(expected["wantAdmittedWorkloads"] == used.workloads, f"admitted: {used.workloads}")


@suite("cache/TestLocalQueueUsage")
def local_usage(run: Run) -> None:
    local = world.local_queue(run.inputs["localQueues"][0])
    queue = _state(run).queues.get(local.cluster_queue)
    found = flavors_json(reserved(queue, local.key), shared=False) if queue is not None else None
    same(run.expected["wantUsage"], found, "usage")


@suite("cache/TestClusterQueuesUsingFlavor")
def users_of_a_flavor(run: Run) -> None:
    using = [
        name
        for name, queue in _state(run).queues.items()
        if run.inputs["flavor"] in flavor_names(queue.spec)
    ]
    same(sorted(run.expected["wantInUseClusterQueueNames"] or ()), sorted(using), "using")


@suite(
    "cache/TestClusterQueuesUsingAdmissionChecks",
    ignores={"inputs.admissionChecks": "the checks; which queues name one follows from the queues"},
)
def users_of_a_check(run: Run) -> None:
    wanted = run.inputs["check"]
    queues = [convert(each, api.ClusterQueue) for each in run.inputs["clusterQueues"]]
    using = [each.metadata.name for each in queues if wanted in checks_of(each)]
    same(sorted(run.expected["wantInUseClusterQueueNames"] or ()), sorted(using), "using")


@suite(
    "cache/TestSnapshot",
    exercises=Exercise.PATH,
    ignores={
        "expected.snapshot.clusterQueues.*.allocatableResourceGeneration": (
            "counts how often Kueue recomputes a queue, which is not part of its state"
        ),
    },
)
def snapshots(run: Run) -> None:
    """The quota tree after every object was applied."""
    cluster = Cluster(run)
    state = cluster.engine.state
    world.use_nodes(state.domains.cluster, run.inputs.get("tasFlavorUsage"))
    for obj in run.inputs.get("relabeledFlavors") or ():
        cluster.engine.apply(ObjectStored(value=world.flavor(obj)), run.now)
    if run.inputs.get("tasFlavorUsage"):
        same(run.expected["wantTASUsage"], _node_usage(state.domains.cluster), "nodes")
        return
    same(None, run.expected.get("wantTASUsage"))
    expected = run.expected.get("snapshot") or {}
    queues = {n: _queue_json(q) for n, q in state.queues.items() if q.active}
    want = {
        name: {k: v for k, v in queue.items() if k != "allocatableResourceGeneration"}
        for name, queue in (expected.get("clusterQueues") or {}).items()
    }
    same(want, queues, "clusterQueues")
    cohorts = {
        name: _node_json(node) for name, node in state.tree.cohorts.items() if not node.cyclic
    }
    want_cohorts = {
        name: {k: v for k, v in cohort.items() if k != "fairWeight" or v != "0"}
        for name, cohort in (expected.get("cohorts") or {}).items()
    }
    for name, cohort in want_cohorts.items():
        # A cohort that is only named has no weight upstream, and nothing reads it.
        cohort.setdefault("fairWeight", cohorts.get(name, {}).get("fairWeight"))
    same(want_cohorts, cohorts, "cohorts")
    inactive = sorted(name for name, queue in state.queues.items() if not queue.active)
    same(expected.get("inactiveClusterQueues"), inactive, "inactive")


def _node_usage(nodes: Nodes) -> Json:
    """Return the usage of domains that counts for each flavor."""
    return {
        name: {
            ",".join(leaf.id): flavor.tree.vectors.mapping(leaf.used)
            for leaf in flavor.tree.leaves.values()
            if leaf.used
        }
        for name, flavor in nodes.flavors.items()
    }


def _node_json(node: QuotaNode) -> Json:
    return {
        "fairWeight": f"{node.weight:g}",
        "quotas": {
            str(column): {
                "nominal": quota.nominal,
                "borrowingLimit": quota.borrowing_limit,
                "lendingLimit": quota.lending_limit,
            }
            for column, quota in node.quotas.items()
        },
        "subtreeQuota": {str(c): cell.subtree for c, cell in node.cells.items() if cell.declared},
        "usage": {str(c): cell.used for c, cell in node.cells.items() if cell.used},
    }


def _queue_json(queue: Queue) -> Json:
    spec = queue.spec
    return _node_json(queue.node) | {
        "flavorFungibility": {
            "whenCanBorrow": spec.fungibility.when_can_borrow,
            "whenCanPreempt": spec.fungibility.when_can_preempt,
            "preference": spec.fungibility.preference,
        },
        "preemption": {
            "withinClusterQueue": spec.preemption.within_cluster_queue,
            "reclaimWithinCohort": spec.preemption.reclaim_within_cohort,
        },
        "status": "active",
        "workloads": sorted(str(key) for key in queue.running),
    }
