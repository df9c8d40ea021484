# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for all facts of an engine.

Names come from small pools, so that objects are related: a queue names a cohort that exists, is
missing, or is part of a cycle. `SOUND` values pass validation, `LOOPED` values may also have cycles
of cohorts, and `WILD` values are anything that the types allow. Whole rules and quotas are drawn
from lists of all combinations, because one draw of many is faster than many draws of few.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from build import groups, key, scheduling_hash
from kuota.api.base import Key, LabelSelector
from kuota.api.core import PodSpec, PodTemplateSpec, Taint, Toleration
from kuota.api.gates import Gate, Gates
from kuota.engine.facts import (
    AdmissionFailed,
    EngineObject,
    EvictionFailed,
    Fact,
    ObjectDeleted,
    ObjectStored,
)
from kuota.engine.model import (
    AdmissionCheck,
    CheckRule,
    ClusterQueue,
    Cohort,
    ConcurrentAdmission,
    Eviction,
    Fungibility,
    LocalQueue,
    Namespace,
    PodSet,
    PodSetReservation,
    Preemption,
    Quota,
    Reservation,
    ResourceFlavor,
    Topology,
    Workload,
)
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, AdmissionFairSharing, Policy

T = TypeVar("T")


def calm(examples: int) -> settings:
    """Every run tries the same examples: what fails in CI fails at home."""
    return settings(max_examples=examples, deadline=None, derandomize=True)


FLAVORS = ("f0", "f1")
RESOURCES = ("gpu", "cpu")
COHORTS = ("c0", "c1", "c2", "c3")
QUEUES = ("q0", "q1", "q2", "q3")
LOCAL_QUEUES = ("l0", "l1", "l2", "l3")
WORKLOADS = tuple(f"w{number}" for number in range(16))

NAMESPACE = Namespace(name="default")
CHECK = AdmissionCheck(name="check", active=True)

_ODD = (-(2**70), -1, 2**63 - 1, 2**63, 2**70)
_WEIGHTS = (1.0, 2.5, 0.0)
_TAINT = Taint(key="spot", value="", effect="NoSchedule")
_TOLERANT = PodTemplateSpec(spec=PodSpec(tolerations=[Toleration(operator="Exists")]))

_PREEMPTION = [
    Preemption(
        within_cluster_queue=within,
        reclaim_within_cohort=reclaim,
        borrow_within_cohort=borrow,
        borrow_max_priority=threshold,
    )
    for within in ("LowerPriority", "LowerOrNewerEqualPriority", "Never")
    for reclaim in ("Any", "LowerPriority", "Never")
    for borrow, threshold in ((False, None), (True, None), (True, 0))
]
_SOUND_PREEMPTION = [
    each
    for each in _PREEMPTION
    if each.reclaim_within_cohort != "Never" or not each.borrow_within_cohort
]
_FUNGIBILITY = [
    Fungibility(when_can_borrow=borrow, when_can_preempt=preempt, preference=preference)
    for borrow, preempt in product(("MayStopSearch", "TryNextFlavor"), repeat=2)
    for preference in ("", "PreemptionOverBorrowing")
]
_QUOTAS = [
    Quota(nominal, borrowing, None if lending is None else min(lending, nominal))
    for nominal in (2, 3, 4, 1, 0)
    for borrowing in (None, None, 2, 0)
    for lending in (None, None, 1, 0)
]
_PLAIN_QUOTAS = [Quota(nominal) for nominal in (3, 2, 4, 6, 0)]
_WILD_QUOTAS = [Quota(a, b, c) for a in _ODD for b in (None, *_ODD) for c in (None, *_ODD)]


class Kinds(msgspec.Struct, frozen=True):
    """How odd the values may be; and whether cohorts may form loops."""

    wild: bool = False
    loops: bool = False

    def of(self, usual: Sequence[T], odd: Sequence[T]) -> st.SearchStrategy[T]:
        """One of the usual values; in the wild, at times one of the odd ones."""
        if not self.wild:
            return st.sampled_from(usual)
        often = st.sampled_from(usual)
        return st.one_of(often, often, often, st.sampled_from(odd))

    def rarely(self) -> st.SearchStrategy[bool]:
        return st.sampled_from((False,) * 11 + (True,))


SOUND, LOOPED, WILD = Kinds(), Kinds(loops=True), Kinds(wild=True, loops=True)


_GATES = (
    Gate.PrioritizePreemptorWorkloads,
    Gate.PrioritySortingWithinCohort,
    Gate.FlavorFungibility,
    Gate.FlavorFungibilityPreserveScanProgress,
    Gate.RecomputeAssignmentUponPreemptionTargetsOverlap,
    Gate.FairSharingPreemptWithinNominal,
    Gate.FairSharingPrioritizeNonBorrowing,
    Gate.PartialAdmission,
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Classical or fair sharing by any strategies, at times with other settings and gates too."""
    strategies = ((), (FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE))
    fair = draw(st.sampled_from((None, None, None, *strategies)))
    if draw(st.booleans()):
        return Policy(fair_sharing=fair)
    flipped = draw(st.sets(st.sampled_from(_GATES), max_size=2))
    return Policy(
        gates=Gates.of({str(gate): not Gates().on(gate) for gate in flipped}, check=False),
        fair_sharing=fair,
        admission_fair_sharing=draw(
            st.sampled_from((None, AdmissionFairSharing(half_life_s=60.0)))
        ),
        ignore_undeclared=draw(st.booleans()),
        block_until_ready=draw(SOUND.rarely()),
    )


@st.composite
def tables(draw: st.DrawFn, kinds: Kinds, *, limited: bool) -> dict[str, int | Quota]:
    """Quotas by flavor and resource, for `build.groups`."""
    pairs = (FLAVORS[:1], FLAVORS[:1], FLAVORS, FLAVORS[::-1])
    flavors = draw(kinds.of(pairs, ((*FLAVORS, "gone"),)))
    resources = draw(kinds.of((RESOURCES,) * 5 + (RESOURCES[:1],), ((*RESOURCES, "pods"), ())))
    quotas = kinds.of(_QUOTAS if limited else _PLAIN_QUOTAS, _WILD_QUOTAS)
    return {f"{flavor}/{name}": draw(quotas) for name in resources for flavor in flavors}


@st.composite
def cohorts(draw: st.DrawFn, kinds: Kinds) -> Cohort:
    """Where loops are allowed, under any parent: a missing one, itself, one of its children."""
    name = draw(st.sampled_from(COHORTS))
    above = COHORTS if kinds.loops else COHORTS[: COHORTS.index(name)]
    parent = draw(st.sampled_from((*above, "")))
    bare = draw(st.booleans())
    return Cohort(
        name=name,
        parent=parent,
        groups=() if bare else groups(draw(tables(kinds, limited=kinds.wild or parent != ""))),
        weight=draw(st.sampled_from(_WEIGHTS)),
    )


@st.composite
def cluster_queues(draw: st.DrawFn, kinds: Kinds, names: Sequence[str] = QUEUES) -> ClusterQueue:
    cohort = draw(st.sampled_from(("c0", "c0", "c1", "c1", "c2", "c3", "")))
    rules = kinds.of(_SOUND_PREEMPTION, _PREEMPTION)
    everyone = LabelSelector()
    return ClusterQueue(
        name=draw(st.sampled_from(names)),
        cohort=cohort,
        groups=groups(draw(tables(kinds, limited=kinds.wild or cohort != ""))),
        strategy=draw(st.sampled_from(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"))),
        stop_policy=draw(st.sampled_from(("None",) * 11 + ("Hold",))),
        namespace_selector=draw(st.sampled_from((everyone,) * 19 + (None,))),
        fungibility=draw(st.sampled_from(_FUNGIBILITY)),
        preemption=draw(rules),
        weight=draw(st.sampled_from(_WEIGHTS)),
        checks=draw(st.sampled_from(((),) * 11 + ((CheckRule(name="check"),),))),
        usage_based=draw(st.booleans()),
        concurrent_admission=ConcurrentAdmission() if kinds.wild else None,
    )


@st.composite
def local_queues(draw: st.DrawFn, kinds: Kinds) -> LocalQueue:
    return LocalQueue(
        key=key(draw(st.sampled_from(LOCAL_QUEUES))),
        cluster_queue=draw(kinds.of(QUEUES, ("gone", ""))),
        stop_policy=draw(st.sampled_from(("None", "None", "None", "Hold"))),
        weight=draw(st.sampled_from(_WEIGHTS)),
    )


@st.composite
def flavors(draw: st.DrawFn) -> ResourceFlavor:
    return ResourceFlavor(
        name=draw(st.sampled_from(FLAVORS)),
        taints=draw(st.sampled_from(((), (), (_TAINT,)))),
        topology=draw(st.sampled_from(("",) * 5 + ("topology",))),
    )


_REQUESTS: list[dict[str, int]] = [
    {"gpu": 1},
    {"gpu": 2},
    {"gpu": 3},
    {"cpu": 1},
    {"cpu": 2},
    {"gpu": 1, "cpu": 1},
    {"gpu": 2, "cpu": 1},
    {"gpu": 1, "cpu": 3},
    {"gpu": 0},
]
_ODD_REQUESTS: list[dict[str, int]] = [
    {},
    {"other": 1},
    *({"gpu": amount, "cpu": other} for amount, other in product(_ODD, repeat=2)),
]


@st.composite
def pod_sets(draw: st.DrawFn, kinds: Kinds, name: str) -> PodSet:
    """Pods alike. Those that may shrink are asked to one pod at least, in the wild to any."""
    requests = draw(kinds.of(_REQUESTS, _ODD_REQUESTS))
    count = draw(kinds.of((1, 1, 1, 2, 3), (-1, 0)))
    fewer = draw(kinds.of((None, None, 1), (0, 2, -1)))
    return PodSet(
        name=name,
        count=count,
        pods=draw(st.integers(0, 2)) if kinds.wild else count,
        requests={resource: amount * count for resource, amount in requests.items()},
        min_count=fewer,
        group=draw(st.sampled_from(("", "", "", "together"))),
        template=draw(st.sampled_from((_TOLERANT, PodTemplateSpec()))),
    )


@st.composite
def workloads(draw: st.DrawFn, kinds: Kinds) -> Workload:
    """A workload that was just submitted."""
    name = draw(st.sampled_from(WORKLOADS))
    many = draw(kinds.of((1, 1, 1, 1, 2), (0, 3)))
    pods = "p" if kinds.wild and draw(kinds.rarely()) else "p{}"
    sets = tuple(draw(pod_sets(kinds, pods.format(number))) for number in range(many))
    priority = draw(st.sampled_from((0, 1, 2, -1)))
    return Workload(
        key=key(name),
        uid=name,
        generation=1,
        queue=draw(kinds.of(LOCAL_QUEUES, ("gone",))),
        priority=priority,
        created=float(draw(st.integers(0, 9))),
        pod_sets=sets,
        scheduling_hash=scheduling_hash(sets, priority),
    )


def crowds(kinds: Kinds, most: int = 8) -> st.SearchStrategy[list[Workload]]:
    """Several workloads that were just submitted."""
    return st.lists(
        workloads(kinds), min_size=most // 2, max_size=most, unique_by=lambda each: each.key
    )


_PASTS: list[dict[str, object]] = [
    {"active": False},
    {"finished": True},
    {"on_hold": True},
    {"waiting_for_pods": True},
    {"gated_by": "someone"},
    {"requeued": False},
    {"requeued": True},
    {"requeue_at": 12.0},
    {"checks": {"check": "Retry"}},
    {"closed_gates": True},
    {"scheduling_hash": ""},
    {"generation": 2},
    {"evicted": Eviction(reason="AdmissionCheck", at=5.0)},
    {"allowed_flavors": frozenset({"f1"}), "parent_uid": "parent"},
    {"allowed_flavors": frozenset({"f0"}), "parent_uid": "parent"},
    {"replaces": key("w0")},
    {"faults": ("requests exceed limits",)},
]


@st.composite
def reservations(draw: st.DrawFn, kinds: Kinds) -> Reservation:
    """Quota held already, in whichever queue and columns, as much as there is or more."""
    columns = groups(draw(tables(kinds, limited=False)))
    usage = {c: quota.nominal for group in columns for c, quota in group.quotas.items()}
    given = PodSetReservation(
        name="p0",
        flavors={column.resource: column.flavor for column in usage},
        requests={column.resource: amount for column, amount in usage.items()},
        count=1,
    )
    return Reservation(
        cluster_queue=draw(kinds.of(QUEUES, ("gone",))),
        pod_sets=(given,),
        usage=usage,
        since=draw(st.sampled_from((None, 1.0, 2.0))),
    )


@st.composite
def changed_workloads(draw: st.DrawFn, kinds: Kinds) -> Workload:
    """A workload with a past, and perhaps with quota that nobody here gave it."""
    past = draw(st.sampled_from(_PASTS))
    held = draw(st.none() | reservations(kinds))
    return msgspec.structs.replace(draw(workloads(kinds)), **{"reservation": held, **past})


def objects(kinds: Kinds) -> st.SearchStrategy[EngineObject]:
    """Anything that can be told of."""
    return st.one_of(
        changed_workloads(kinds),
        cluster_queues(kinds),
        cohorts(kinds),
        local_queues(kinds),
        flavors(),
        st.sampled_from(
            (NAMESPACE, CHECK, Topology(name="topology"), AdmissionCheck(name="check"))
        ),
    )


_GONE = [
    *(ObjectDeleted(kind=Workload, key=key(name)) for name in WORKLOADS),
    *(ObjectDeleted(kind=LocalQueue, key=key(name)) for name in LOCAL_QUEUES),
    *(ObjectDeleted(kind=ClusterQueue, key=Key("", name)) for name in QUEUES),
    *(ObjectDeleted(kind=Cohort, key=Key("", name)) for name in COHORTS),
    *(ObjectDeleted(kind=ResourceFlavor, key=Key("", name)) for name in FLAVORS),
    ObjectDeleted(kind=Topology, key=Key("", "topology")),
    ObjectDeleted(kind=AdmissionCheck, key=Key("", "check")),
    ObjectDeleted(kind=Namespace, key=Key("", "default")),
]


def facts(kinds: Kinds) -> st.SearchStrategy[Fact]:
    """Anything that can happen: objects come, change and go, and writes fail."""
    stored_facts = st.builds(lambda value: ObjectStored(value=value), objects(kinds))
    names = [key(name) for name in WORKLOADS]
    failed = [AdmissionFailed(key=each, retry_at=at) for each in names for at in (None, 5.0)]
    stayed = [*(EvictionFailed(key=each) for each in names)]
    return st.one_of(
        stored_facts, stored_facts, st.sampled_from(_GONE), st.sampled_from([*failed, *stayed])
    )


@st.composite
def clusters(draw: st.DrawFn, kinds: Kinds) -> list[EngineObject]:
    """Everything but workloads: four queues, each with a LocalQueue, in any trees of cohorts."""
    trees = st.lists(cohorts(kinds), max_size=4, unique_by=lambda each: each.name)
    made: list[EngineObject] = [NAMESPACE, CHECK, *(ResourceFlavor(name=name) for name in FLAVORS)]
    made += draw(trees)
    made += [draw(cluster_queues(kinds, (name,))) for name in QUEUES]
    made += [
        LocalQueue(key=key(local), cluster_queue=name)
        for local, name in zip(LOCAL_QUEUES, QUEUES, strict=True)
    ]
    return made
