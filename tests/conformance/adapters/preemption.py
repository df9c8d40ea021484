# SPDX-License-Identifier: Apache-2.0
"""Suites of group `preemption`: the victims, their order, and the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping

from conformance import world
from conformance.adapters.scheduler import same_workloads
from conformance.case import Json, Run, check, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api import workload as api
from kuota.api.base import Key
from kuota.api.merge_patch import merged
from kuota.api.resources import rescaled
from kuota.bridge.effects import StatusPatch
from kuota.bridge.messages import victim_text
from kuota.bridge.outbound import Outbound
from kuota.engine import model
from kuota.engine.amounts import Amounts, FlavorResource, add_into
from kuota.engine.assignment import AssignmentMode, WorkloadAssignment
from kuota.engine.candidates import PreemptionRequest, may_preempt, sorted_candidates
from kuota.engine.decisions import Preempt, Victim
from kuota.engine.fair_preempt import CandidateStream, TargetOrdering
from kuota.engine.policy import AdmissionFairSharing, Policy
from kuota.engine.preempt import Target, targets
from kuota.engine.reasons import PreemptionReason
from kuota.engine.snapshot import ChargedWorkload, Queue, Snapshot
from kuota.engine.tree import QuotaTree
from kuota.engine.usage import NO_USAGE

NO_AMOUNTS: Amounts = {}


# The test gives an assignment of which preemption reads flavors, modes and counts.
_UNUSED = "part of the assignment that preemption does not read, and that the records leave empty"
_ASSIGNMENT = {
    f"inputs.assignment.{name}": _UNUSED
    for name in ("lastState", "noFitReason", "quotaCheckStrategy", "usage", "borrowing")
} | {
    f"inputs.assignment.podSets.*.{name}": _UNUSED
    for name in ("status", "flavors.*.borrow", "flavors.*.triedFlavorIdx")
}


@suite("preemption/TestPreemption", "preemption/TestHierarchicalPreemptions", ignores=_ASSIGNMENT)
def classical_victims(run: Run) -> None:
    found = victims(run)
    same(run.expected.get("wantPreempted"), len(found))
    if "targets" in run.observed:
        same(run.observed["targets"], {str(each.running.key): str(each.reason) for each in found})
    same_workloads(run.expected.get("wantWorkloads"), after(run, found))


def after(run: Run, found: tuple[Target, ...]) -> list[Json]:
    """The admitted objects once the effects of preempting `found` are true."""
    stored = {Key.parse(key(obj)): obj for obj in whole(run.inputs["admittedWorkloads"]) or ()}

    def workload(at: Key) -> api.Workload | None:
        return convert(stored[at], api.Workload) if at in stored else None

    decision = Preempt(
        workload=world.workload(run.inputs["incomingWorkload"], world.gates_of(run)),
        cluster_queue=run.inputs["targetCQ"],
        path="",
        assignment=WorkloadAssignment(pod_sets=(), usage={}, mode=AssignmentMode.PREEMPT),
        victims=tuple(victim(each) for each in found),
    )
    for effect in Outbound(world.gates_of(run), workload).effects(decision, run.now):
        if isinstance(effect, StatusPatch):
            obj = stored[effect.key]
            stored[effect.key] = obj | {"status": merged(obj["status"], effect.status)}
    return list(stored.values())


def victim(target: Target) -> Victim:
    running = target.running
    return Victim(
        workload=running.workload,
        cluster_queue=running.queue,
        path="",
        reason=target.reason,
        leaving=running.workload.evicted is not None,
    )


_UNKNOWN = "UNKNOWN"
_MESSAGE = re.compile(
    r"\(UID: (.*), job ?UID: (.*)\) due to (.*); preemptor path: (.*); preempt\w* path: (.*)", re.I
)


@suite("preemption/TestPreemptionMessage")
def messages(run: Run) -> None:
    """The wording is Kuota's own, but what the message says of the preemptor is Kueue's.

    In Kuota a preemption has always a reason and both paths, which some cases leave out.
    """
    given = run.inputs["reason"]
    reason = PreemptionReason(given) if given else PreemptionReason.IN_CLUSTER_QUEUE
    preemptor = world.workload(run.inputs["preemptor"], world.gates_of(run))
    path = run.inputs["preempteePath"]
    target = Victim(workload=preemptor, cluster_queue="", path=path, reason=reason)
    decision = Preempt(
        workload=preemptor,
        cluster_queue="",
        path=run.inputs["preemptorPath"],
        assignment=WorkloadAssignment(pod_sets=(), usage={}, mode=AssignmentMode.PREEMPT),
        victims=(target,),
    )
    wanted, found = _MESSAGE.search(run.expected["want"]), victim_text(decision, target)
    got = _MESSAGE.search(found)
    assert wanted is not None, "a wanted message of another form"
    assert got is not None, f"a message of another form: {found}"
    for want, word in zip(wanted.groups(), got.groups(), strict=True):
        check(want.lower() == word.lower() or want == _UNKNOWN, f"want {want}, got {word}")


@suite("preemption/TestFairPreemptions", ignores=_ASSIGNMENT)
def fair_victims(run: Run) -> None:
    found = victims(run)
    same(
        sorted(run.expected.get("wantPreempted") or ()),
        sorted(f"{each.running.key}:{each.reason}" for each in found),
    )


def victims(run: Run) -> tuple[Target, ...]:
    snapshot = world.snapshot(run, "admittedWorkloads")
    preemptor = world.workload(run.inputs["incomingWorkload"], world.gates_of(run))
    needed, request = demand_of(run.inputs["assignment"], preemptor)
    return targets(preemptor, snapshot.queues[run.inputs["targetCQ"]], needed, request, snapshot)


def demand_of(
    assignment: Json, workload: model.Workload
) -> tuple[frozenset[FlavorResource], Amounts]:
    """The columns a recorded assignment lacks, and all it asks for."""
    needed, request = set(), dict(NO_AMOUNTS)
    for wanted, assigned in zip(workload.pod_sets, assignment["podSets"], strict=True):
        same(assigned["name"], wanted.name, ".assignment.name")
        amounts = rescaled(wanted.requests, wanted.pods, assigned["count"])
        for resource, choice in (assigned.get("flavors") or {}).items():
            column = FlavorResource(choice["name"], resource)
            add_into(request, {column: amounts.get(resource, 0)})
            if choice["mode"] == "Preempt":
                needed.add(column)
    return frozenset(needed), request


def key(obj: Json) -> str:
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


@suite("preemption/TestSatisfiesPreemptionPolicy")
def policies(run: Run) -> None:
    preemptor, candidate = (
        world.workload(run.inputs[name], world.gates_of(run)) for name in ("preemptor", "candidate")
    )
    actual = may_preempt(run.inputs["policy"], candidate, preemptor, world.policy_of(run))
    same(run.expected["want"], actual)


@suite("preemption/TestPriorityInfo")
def priorities(run: Run) -> None:
    workload = world.workload(run.inputs.get("wl") or {}, world.gates_of(run))
    same(
        run.expected,
        {
            "wantBase": workload.priority - workload.boost,
            "wantBoost": workload.boost,
            "wantEffective": workload.priority,
        },
    )


@suite("preemption/TestCandidatesOrdering")
def candidate_order(run: Run) -> None:
    candidates, use, usage_based = [], {}, set()
    for obj in world.each(run, "candidates"):
        workload = world.workload(obj["workload"], world.gates_of(run))
        candidates.append(ChargedWorkload(workload, obj["clusterQueue"], NO_USAGE))
        if obj["localQueueFSUsage"] is not None:
            use[workload.local_queue] = float(obj["localQueueFSUsage"])
            usage_based.add(obj["clusterQueue"])
    home = run.inputs["preemptorClusterQueue"]
    names = {home, *(each.queue for each in candidates)}
    snapshot = lone_queues(run, {name: name in usage_based for name in names}, use)
    request = PreemptionRequest(
        model.Workload(key=Key("", "")),
        snapshot.queues[home],
        frozenset(),
        NO_AMOUNTS,
        snapshot,
    )
    same(
        run.expected["wantCandidates"],
        [each.workload.key.name for each in sorted_candidates(candidates, request)],
    )


def lone_queues(run: Run, usage_based: Mapping[str, bool], use: Mapping[Key, float]) -> Snapshot:
    """A snapshot of queues without quota, each told whether past use counts in it."""
    tree = QuotaTree()
    queues = {
        name: Queue(
            model.ClusterQueue(name=name, usage_based=counts), tree.put_queue(name, "", (), 1.0)
        )
        for name, counts in usage_based.items()
    }
    history = AdmissionFairSharing() if run.config.get("afsEnabled") else None
    return Snapshot(
        tree,
        queues,
        {},
        policy=Policy(gates=world.gates_of(run), admission_fair_sharing=history),
        now=run.now,
        local_queue_usage=lambda queue: use.get(queue, 0.0),
    )


@suite("preemption/TestMakeClusterQueueOrdering")
def queue_order(run: Run) -> None:
    """Each step takes a candidate of the loser, or drops the loser, as `actions` says."""
    snapshot = world.snapshot(run, "admittedWorkloads")
    home = snapshot.queues[run.inputs["preemptorCQ"]]
    request = PreemptionRequest(
        model.Workload(key=Key("", "")), home, frozenset(), NO_AMOUNTS, snapshot
    )
    losers = (snapshot.queues[name] for name in world.each(run, "candidateCQs"))
    ordering = TargetOrdering(
        request, {queue.node: CandidateStream(queue.running.values()) for queue in losers}
    )
    actions = list(world.each(run, "actions"))
    order = []
    while (queue := ordering.next_target()) is not None:
        order.append(queue.name)
        check(len(order) < 100, "the contest does not end")
        if actions and actions.pop(0) == "drop":
            ordering.stream(queue).drain()
        else:
            ordering.stream(queue).pop()
    same(run.expected.get("wantOrder"), order)
