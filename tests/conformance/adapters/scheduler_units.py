# SPDX-License-Identifier: Apache-2.0
"""Single rules of the scheduler: order, outdated scan positions, reserved capacity."""

from __future__ import annotations

from conformance import world
from conformance.adapters.scheduler import same_sets, same_workloads
from conformance.case import Json, Run, check, same
from conformance.cluster import Cluster
from conformance.recorder import whole
from conformance.registry import suite
from kuota.api.base import Key
from kuota.api.gates import Gate
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.assignment import AssignmentMode, ScanProgress, WorkloadAssignment
from kuota.engine.decisions import Admit, Wait, WaitCause
from kuota.engine.entry import Entry, Head
from kuota.engine.facts import AdmissionFailed, ObjectStored
from kuota.engine.fairness import DominantResourceShare
from kuota.engine.model import ClusterQueue, LocalQueue, Workload
from kuota.engine.nominate import outdated
from kuota.engine.order import classical_rank, fair_rank
from kuota.engine.policy import Policy
from kuota.engine.reasons import RequeueReason, WaitReason
from kuota.engine.settle import reservable
from kuota.engine.snapshot import Queue
from kuota.engine.tree import QuotaNode, charge


def _entry(run: Run, given: Json, policy: Policy) -> Entry:
    workload = world.workload(given["workload"], world.gates_of(run))
    head = Head(workload=workload, cluster_queue="", preemptor=given["isPreemptor"])
    entry = Entry(head, Queue(ClusterQueue(name=""), QuotaNode("", is_queue=True)), policy)
    usage = amounts((run.inputs.get("requestedFRs") or {}).get(str(workload.key)))
    entry.assignment = WorkloadAssignment(
        pod_sets=(), usage=usage, mode=AssignmentMode.FIT, height=given["borrowing"]
    )
    return entry


def amounts(given: dict[str, int] | None) -> Amounts:
    return {FlavorResource.parse(column): amount for column, amount in (given or {}).items()}


@suite("scheduler/TestEntryOrdering")
def ordering(run: Run) -> None:
    policy = world.policy_of(run)
    entries = [_entry(run, given, policy) for given in run.inputs["entries"]]
    in_rank_order = sorted(entries, key=lambda entry: classical_rank(entry, policy))
    same(run.expected["wantOrder"], [entry.workload.key.name for entry in in_rank_order], "order")


@suite(
    "scheduler/TestEntryComparerLess",
    ignores={"inputs.drsValues.*.borrowing": "follows from the borrowed resources beside it"},
)
def comparing(run: Run) -> None:
    policy = world.policy_of(run)
    one, other = (
        fair_rank(entry, _share(run, entry.workload.key), policy)
        for entry in (_entry(run, given, policy) for given in run.inputs["entries"])
    )
    check((one < other) == run.expected["wantLess"], f"less: {one} and {other}")


def _share(run: Run, key: Key) -> DominantResourceShare:
    name = f"{run.inputs['parentCohort']}|{key}"
    given = (run.inputs.get("drsValues") or {}).get(name)
    if given is None:
        return DominantResourceShare()
    return DominantResourceShare(
        float(given["unweightedRatio"]),
        float(given["fairWeight"]),
        given["dominantResource"],
        frozenset(FlavorResource.parse(each) for each in given.get("borrowedFRs") or ()),
    )


@suite("scheduler/TestLastAssignmentOutdated")
def bookmarks(run: Run) -> None:
    args = run.inputs["args"]
    last = args["last"]
    policy = Policy(gates=world.gates_of(run))
    preserves = policy.gates.on(Gate.FlavorFungibilityPreserveScanProgress)
    same(run.inputs["preserveProgress"], preserves, ".preserveProgress")
    progress = ScanProgress(
        cycle=last["schedulingCycle"],
        generation=last["clusterQueueGeneration"],
        scheduling_hash=last["schedulingHash"],
    )
    workload = Workload(key=Key("", ""), scheduling_hash=args["currentSchedulingHash"])
    got = outdated(
        progress,
        Head(workload=workload, cluster_queue=""),
        args["currentCQGeneration"],
        args["currentSchedulingCycle"],
        policy,
    )
    check(got == run.expected["want"], f"outdated: want {run.expected['want']}, got {got}")


@suite("scheduler/TestResourcesToReserve")
def held_capacity(run: Run) -> None:
    node = next(iter(world.snapshot(run).queues.values())).node
    for column, amount in amounts(run.inputs["cqUsage"]).items():
        charge(node.cell(column), amount)
    assignment = WorkloadAssignment(
        pod_sets=(),
        usage=amounts(run.inputs["assignmentUsage"]),
        mode=next(e for e in AssignmentMode if str(e) == run.inputs["assignmentMode"]),
        height=run.inputs["borrowing"],
    )
    # Only a head that would have to preempt is limited; `settle` charges others as they are.
    blocked = assignment.mode is AssignmentMode.PREEMPT
    held = reservable(assignment, node) if blocked else assignment.usage
    same(run.expected["wantReserved"], {str(c): a for c, a in held.items()}, "reserved")


@suite("scheduler/TestShouldApplyEntryPenalty")
def penalties(run: Run) -> None:
    cluster = Cluster(run)
    engine = cluster.engine
    usage_based = run.inputs["admissionMode"] == "UsageBasedAdmissionFairSharing"
    engine.apply(ObjectStored(value=ClusterQueue(name="cq", usage_based=usage_based)), run.now)
    engine.apply(ObjectStored(value=LocalQueue(key=Key("ns", "lq"), cluster_queue="cq")), run.now)
    workload = world.workload(run.inputs["workload"], world.gates_of(run))
    got = engine.usage_tracker.adds_penalty(workload, "cq")
    check(got == run.expected["want"], f"penalty: want {run.expected['want']}, got {got}")


@suite("scheduler/TestRequeueAndUpdate")
def requeueing(run: Run) -> None:
    """A head comes back with an outcome; what was assumed or nominated failed to be written."""
    cluster = Cluster(run)
    engine, given = cluster.engine, whole(run.inputs["entry"])
    (pending,) = engine.queues.heads(run.now, lambda name: True)
    nothing = WorkloadAssignment(pod_sets=(), usage={}, mode=AssignmentMode.FIT)
    if given["status"] in ("assumed", "nominated"):
        admit = Admit(workload=pending.workload, cluster_queue="cq", assignment=nothing)
        engine.apply_decision(pending, admit, run.now)
        engine.apply(AdmissionFailed(key=pending.key), run.now)
    else:
        gated, requeue = given["status"] == "preemptionGated", RequeueReason(given["requeueReason"])
        if given["status"] and requeue is RequeueReason.GENERIC:
            # Kueue calls any outcome after nomination without a reason of its own a lost race.
            requeue = RequeueReason.FAILED_AFTER_NOMINATION
        wait = Wait(
            workload=pending.workload,
            cluster_queue=pending.cluster_queue,
            reason=WaitReason(given["quotaReservedReason"]),
            why=WaitCause.GATED if gated else WaitCause.NO_FIT,
            requeue=requeue,
        )
        engine.apply_decision(pending, wait, run.now)
        cluster.write(wait)
    same_sets(run.expected["wantWorkloads"], cluster.left(), "left")
    same_sets(run.expected["wantInadmissible"], cluster.inadmissible(), "inadmissible")
    status = run.expected["wantStatus"]
    got = cluster.workloads()[0]
    same_workloads([_without_times(got | {"status": status})], [_without_times(got)])
    writes = sum(1 for obj in cluster.workloads() if obj["status"])
    check(run.expected["wantStatusUpdates"] == writes, f"writes: got {writes}")


def _without_times(obj: Json) -> Json:
    status = dict(obj["status"])
    if status.get("conditions"):
        status["conditions"] = [c | {"lastTransitionTime": None} for c in status["conditions"]]
    return obj | {"status": status}
