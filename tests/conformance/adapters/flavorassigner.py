# SPDX-License-Identifier: Apache-2.0
"""Recorded flavor assignments: the search, its fungibility, and partial admission.

Preemption is not run. A recorded oracle answers for it; where nothing is recorded it says that
preemption is possible without borrowing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from conformance import world
from conformance.case import Json, Run, check, same
from conformance.obstacles import kueue_texts
from conformance.recorder import whole
from conformance.registry import suite
from kuota.api.base import Key
from kuota.api.gates import Gate
from kuota.api.quantity import units
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.assignment import (
    AssignmentMode,
    FlavorAttempt,
    OracleResult,
    PodSetAssignment,
    PreemptionPossibility,
    WorkloadAssignment,
)
from kuota.engine.flavors import Oracle, assign
from kuota.engine.fungibility import GranularMode, PreemptionMode, preferred
from kuota.engine.model import (
    ClusterQueue,
    Fungibility,
    PodSet,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Workload,
)
from kuota.engine.nominate import partial
from kuota.engine.snapshot import ChargedWorkload, Queue, Snapshot
from kuota.engine.tree import QuotaTree, charge
from kuota.engine.usage import usage_of

_GROUP = "flavorassigner"
_POSSIBILITIES = {str(each): each for each in PreemptionPossibility}
_UNLIMITED = Quota(10**15)


@suite(
    f"{_GROUP}/TestAssignFlavors",
    f"{_GROUP}/TestDeletedFlavors",
    ignores={
        "expected.wantAssignment.lastState": "the test does not compare it, and it is empty",
        "expected.wantAssignment.quotaCheckStrategy": "unexported, and empty in the records",
        "expected.wantAssignment.podSets.*.flavors.*.borrow": (
            "the height of one resource; the test ignores it, `borrowing` is the greatest of them"
        ),
    },
)
def assign_flavors(run: Run) -> None:
    found = assigned(run)
    want = run.expected["wantAssignment"]
    observed = world.gates_of(run).on(Gate.UnadmittedWorkloadsObservability)
    same(run.expected["wantRepMode"], str(found.mode), ".mode")
    same(want.get("borrowing"), found.height, ".borrowing")
    reason = want.get("noFitReason")
    if observed:
        same(reason, found.no_fit or "", ".noFitReason")
    same(
        (want.get("usage") or {}).get("quota", {}).get("assigned"), _amounts(found.usage), ".usage"
    )
    wanted = want.get("podSets") or []
    same([each["name"] for each in wanted], [each.name for each in found.pod_sets], ".podSets")
    for index, (expected, actual) in enumerate(zip(wanted, found.pod_sets, strict=True)):
        _same_pod_set(expected, actual)
        _same_attempts(run, index, actual, observed)


@suite(f"{_GROUP}/TestAssignFlavorsWithAllowedFlavors")
def allowed_flavors(run: Run) -> None:
    found = assigned(run)
    same(run.expected["wantRepMode"], str(found.mode), ".mode")
    chosen = {choice.flavor for each in found.pod_sets for choice in each.flavors.values()}
    wanted = run.expected.get("wantFlavor")
    same([wanted] if wanted else [], sorted(chosen), ".flavor")


@suite(f"{_GROUP}/TestHierarchical", f"{_GROUP}/TestReclaimBeforePriorityPreemption")
def chosen_flavors(run: Run) -> None:
    found = assigned(run)
    same(run.expected["wantMode"], str(found.mode), ".mode")
    chosen = {
        resource: choice.flavor
        for each in found.pod_sets
        for resource, choice in each.flavors.items()
    }
    same(run.expected.get("wantAssigment"), chosen, ".flavors")


@suite(f"{_GROUP}/TestIsNoFitDueToCapacityAndLimits")
def no_fit_reasons(run: Run) -> None:
    """Only flavors that were tried are compared: a search may end before it met all."""
    found = assigned(run)
    same(run.expected.get("wantNoFitReason"), found.no_fit or "", ".noFitReason")
    wanted = whole(run.expected.get("wantFlavorAttempts")) or {}
    for attempt in (attempt for each in found.pod_sets for attempt in each.attempts):
        if attempt.flavor in wanted:
            same(wanted[attempt.flavor], attempt.no_fit or "", f".attempts.{attempt.flavor}")


@suite(
    f"{_GROUP}/TestAssignFlavors_LeaderWorkerSetTASFlavor",
    ignores={
        "inputs.nodes.*.status.conditions.*.lastHeartbeatTime": "placement does not read it",
        "inputs.nodes.*.status.conditions.*.lastTransitionTime": "placement does not read it",
        "expected.wantPodSetFlavors.*.*.borrow": "the test does not compare unexported fields",
    },
)
def leader_and_workers(run: Run) -> None:
    found = {each.name: each for each in assigned(run).pod_sets}
    for name, flavors in (run.expected.get("wantPodSetFlavors") or {}).items():
        same(_wanted_flavors(flavors), _flavors(found[name]), f".{name}.flavors")
    errors = [name for name, each in found.items() if each.error]
    same(sorted(whole(run.expected.get("wantPodSetErrors")) or {}), sorted(errors), ".errors")


@suite(
    f"{_GROUP}/TestAssignment_TotalRequestsFor",
    ignores={
        **{
            f"inputs.podSetAssignments.*.flavors.*.{name}": "not part of what is summed up"
            for name in ("mode", "borrow", "triedFlavorIdx")
        },
        "inputs.podSetAssignments.*.status": "empty, and not part of what is summed up",
        "inputs.podSetAssignments.*.requests": (
            "what the pod set asks for; here it follows from the workload and the counts"
        ),
    },
)
def total_requests(run: Run) -> None:
    """The usage of a workload that gets the given flavors, in a queue that offers just those.

    What is asked beyond a replaced slice follows from the two workloads; counts then do not matter.
    """
    given = run.inputs["podSetAssignments"]
    snapshot = _unlimited(given)
    queue = snapshot.queues["cq"]
    workload = world.workload(run.inputs["workload"])
    counts = {each["name"]: each["count"] for each in given}
    old = run.inputs.get("replaceWorkloadSlice")
    if old is None:
        listed = [counts[each.name] for each in workload.pod_sets]
        found = assign(workload, queue, snapshot, _oracle({}), counts=listed)
    else:
        slice_ = _slice(old, given)
        workload = msgspec.structs.replace(workload, replaces=slice_.key)
        found = assign(workload, queue, snapshot, _oracle({}), replaced=slice_)
    same(run.expected["want"], _amounts(found.usage), ".want")


@suite(f"{_GROUP}/TestIsPreferred")
def is_preferred(run: Run) -> None:
    config = run.inputs.get("config") or {}
    fungibility = Fungibility(
        when_can_borrow=config.get("whenCanBorrow") or "MayStopSearch",
        when_can_preempt=config.get("whenCanPreempt") or "TryNextFlavor",
        preference=config.get("preference") or "",
    )
    on = world.gates_of(run).on(Gate.FlavorFungibility)
    better = preferred(
        _granular_mode(run.inputs["a"]),
        _granular_mode(run.inputs["b"]),
        fungibility if on else None,
    )
    same(run.expected["wantPreferred"], better, ".preferred")


@suite(
    f"{_GROUP}/TestSearch",
    ignores={
        "inputs.podSets.*.template": "the search is over counts; what a pod asks for is stubbed"
    },
)
def search_counts(run: Run) -> None:
    pod_sets = tuple(
        PodSet(
            name=each["name"],
            count=each["count"],
            pods=each["count"],
            requests={},
            min_count=each.get("minCount"),
        )
        for each in run.inputs.get("podSets") or ()
    )
    limit = run.inputs["countLimit"]

    def total(counts: list[int]) -> int | None:
        return sum(counts) if sum(counts) <= limit else None

    found = partial(Workload(key=Key("", "w"), pod_sets=pod_sets), total)
    same(run.expected["wantFound"], found is not None, ".found")
    same(run.expected["wantCount"], found or 0, ".count")


def assigned(run: Run) -> WorkloadAssignment:
    snapshot = world.snapshot(run)
    name = run.inputs["targetClusterQueue"]
    queue = snapshot.queues[name]
    others = [each for each in snapshot.queues.values() if each is not queue]
    for key in ("clusterQueueUsage", "testClusterQueueUsage", "cqUsage"):
        _use(queue, run.inputs.get(key))
    for key in ("secondaryClusterQueueUsage", "otherClusterQueueUsage"):
        if run.inputs.get(key):
            _use(others[0], run.inputs[key])
    for sibling, usage in (run.inputs.get("siblingCQUsage") or {}).items():
        _use(snapshot.queues[sibling], usage)
    workload = world.workload(run.inputs["workload"], world.gates_of(run))
    old = run.inputs.get("preemptWorkloadSlice")
    oracle = _oracle(whole(run.inputs.get("simulationResult")) or {})
    replaced = _slice(old, ()) if old is not None else None
    return assign(workload, queue, snapshot, oracle, replaced=replaced)


def _use(queue: Queue, usage: dict[str, int] | None) -> None:
    for column, amount in (usage or {}).items():
        charge(queue.node.cell(FlavorResource.parse(column)), amount)


def _oracle(recorded: Json) -> Oracle:
    def answer(
        workload: Workload, queue: Queue, column: FlavorResource, amount: int, snapshot: Snapshot
    ) -> OracleResult:
        found = recorded.get(str(column))
        if found is None:
            return OracleResult(PreemptionPossibility.PREEMPT, 0)
        possibility = _POSSIBILITIES[found["preemptionPossiblity"]]
        return OracleResult(possibility, found["borrowingAfterSimulation"])

    return answer


def _slice(obj: Json, given: Iterable[Json]) -> ChargedWorkload:
    """The slice that is replaced: it holds quota, for all of its pods, in recorded flavors."""
    workload = world.workload(obj)
    admission = obj["status"].get("admission") or {"podSetAssignments": list(given)}
    flavors = {each["name"]: each["flavors"] for each in admission["podSetAssignments"]}
    status = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [
                {
                    "name": each.name,
                    "count": each.count,
                    "flavors": {
                        resource: flavor if isinstance(flavor, str) else flavor["name"]
                        for resource, flavor in flavors[each.name].items()
                    },
                    "resourceUsage": {
                        resource: f"{amount}m" if resource == "cpu" else str(amount)
                        for resource, amount in each.requests.items()
                    },
                }
                for each in workload.pod_sets
            ],
        },
    }
    reserved = world.workload({**obj, "status": {**obj["status"], **status}})
    if reserved.reservation is None:
        raise ValueError("the replaced slice holds no quota")
    return ChargedWorkload(reserved, "cq", usage_of(reserved, reserved.reservation))


def _unlimited(given: Iterable[Json]) -> Snapshot:
    """A queue that has plenty of exactly the flavors and resources that were assigned."""
    offered: dict[str, set[str]] = {}
    for each in given:
        for resource, choice in (each.get("flavors") or {}).items():
            offered.setdefault(choice["name"], set()).add(resource)
    groups = tuple(
        ResourceGroup(
            resources=tuple(sorted(resources)),
            flavors=(flavor,),
            quotas={FlavorResource(flavor, each): _UNLIMITED for each in resources},
        )
        for flavor, resources in offered.items()
    )
    tree = QuotaTree()
    queue = Queue(ClusterQueue(name="cq", groups=groups), tree.put_queue("cq", "", groups, 1.0))
    return Snapshot(tree, {"cq": queue}, {name: ResourceFlavor(name=name) for name in offered})


def _granular_mode(given: Json) -> GranularMode:
    return PreemptionMode(given["preemptionMode"]), given["borrowingLevel"]


def _same_pod_set(expected: Json, actual: PodSetAssignment) -> None:
    at = f".{actual.name}"
    same(expected["count"], actual.count, f"{at}.count")
    asked = expected.get("requests") or {}
    requests = {name: units(amount, name) for name, amount in asked.items()}
    same(requests, actual.requests, f"{at}.requests")
    same(_wanted_flavors(expected.get("flavors") or {}), _flavors(actual), f"{at}.flavors")
    status = expected.get("status") or {}
    same(status.get("noFitReason"), "", f"{at}.noFitReason")
    same(sorted(status.get("reasons") or ()), kueue_texts(actual.reasons), f"{at}.reasons")


def _same_attempts(run: Run, index: int, actual: PodSetAssignment, observed: bool) -> None:
    """Compare attempts with those that Kueue really made, in order, where they were recorded.

    Its tests list attempts that may be made when one fits, or else must be among those made.
    """
    at, made = f".{actual.name}.attempts", [_attempt(each, observed) for each in actual.attempts]
    listed = run.expected["wantAssignment"]["podSets"][index].get("flavorAssignmentAttempts")
    wanted = [_wanted_attempt(each, observed) for each in listed or ()]
    if run.observed:
        really = run.observed["assignment"]["podSets"][index].get("flavorAssignmentAttempts")
        same([_wanted_attempt(each, observed) for each in really or ()], made, at)
    for each in made if actual.mode is AssignmentMode.FIT and wanted else ():
        check(each in wanted, f"{at}: {each} is not among the wanted")
    for each in wanted if actual.mode is not AssignmentMode.FIT else ():
        check(each in made, f"{at}: {each} is not among those made")


def _wanted_attempt(given: Json, observed: bool) -> Json:
    """An attempt, without the reason that only counts while it is `observed`."""
    no_fit = given["noFitReason"]
    return {
        "flavor": given["flavor"],
        "mode": given["mode"],
        "borrow": given["borrow"],
        "preemption": given.get("preemptionPossibility") or "",
        "noFit": no_fit if observed else "",
        "reasons": sorted(given.get("reasons") or ()),
    }


def _attempt(attempt: FlavorAttempt, observed: bool) -> Json:
    return {
        "flavor": attempt.flavor,
        "mode": str(attempt.mode),
        "borrow": attempt.height,
        "preemption": attempt.preemption,
        "noFit": str(attempt.no_fit or "") if observed else "",
        "reasons": kueue_texts(attempt.reasons),
    }


def _wanted_flavors(wanted: Json) -> dict[str, Any]:
    return {
        resource: {
            "flavor": each["name"],
            "mode": each["mode"],
            "tried": None if each["triedFlavorIdx"] == -1 else str(each["triedFlavorIdx"]),
        }
        for resource, each in wanted.items()
    }


def _flavors(actual: PodSetAssignment) -> dict[str, Any]:
    return {
        resource: {
            "flavor": each.flavor,
            "mode": str(each.mode),
            "tried": None if each.tried is None else str(each.tried),
        }
        for resource, each in actual.flavors.items()
    }


def _amounts(usage: Amounts) -> dict[str, int]:
    return {str(column): amount for column, amount in usage.items()}
