# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for everything an engine can be told.

Names come from small pools, so that objects meet: a queue names a cohort that exists, is missing,
or hangs in a loop. `Kinds` says how odd things may get. `SOUND` values pass validation; `WILD` ones
are whatever the types allow, as a broken webhook would let through.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from build import class_id, groups, key
from kuota.api.base import Key, LabelSelector
from kuota.api.core import PodSpec, PodTemplateSpec, Taint, Toleration
from kuota.api.gates import Gate, Gates
from kuota.engine.facts import AdmissionFailed, EvictionFailed, Fact, Gone, Known, Stored
from kuota.engine.model import (
    AdmissionCheck,
    Assigned,
    CheckRule,
    ClusterQueue,
    Cohort,
    ConcurrentAdmission,
    Eviction,
    Fungibility,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    Quota,
    Reservation,
    ResourceFlavor,
    Topology,
    Workload,
)
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, AdmissionFairSharing, Policy

CALM = settings(max_examples=60, stateful_step_count=25, deadline=None, derandomize=True)
"""Every run tries the same examples: what fails in CI fails at home."""

FLAVORS = ("f0", "f1")
RESOURCES = ("gpu", "cpu")
COHORTS = ("c0", "c1", "c2", "c3")
QUEUES = ("q0", "q1", "q2", "q3")
LOCAL_QUEUES = ("l0", "l1", "l2", "l3")
WORKLOADS = tuple(f"w{number}" for number in range(16))

_ODD = (-(2**70), -1, 2**63 - 1, 2**63, 2**70)
_TAINT = Taint(key="spot", value="", effect="NoSchedule")
_WITHIN = ("LowerPriority", "LowerOrNewerEqualPriority", "Never")
_RECLAIM = ("Any", "LowerPriority", "Never")


@dataclass(frozen=True)
class Kinds:
    """How odd the values may be."""

    wild: bool = False

    @property
    def nominal(self) -> st.SearchStrategy[int]:
        return self._mostly((2, 3, 4, 1, 0))

    @property
    def limits(self) -> st.SearchStrategy[int]:
        return self._mostly((2, 1, 4, 0))

    @property
    def requests(self) -> st.SearchStrategy[int]:
        return self._mostly((2, 1, 3, 1, 2, 4, 0))

    def _mostly(self, usual: tuple[int, ...]) -> st.SearchStrategy[int]:
        return st.sampled_from((*usual * 3, *_ODD) if self.wild else usual)

    @property
    def counts(self) -> st.SearchStrategy[int]:
        return st.sampled_from((1, 1, 1, 2, 3, -1, 0) if self.wild else (1, 1, 1, 1, 2))

    def names(self, known: tuple[str, ...], *missing: str) -> st.SearchStrategy[str]:
        """One of the known names; in the wild, at times one that nobody has."""
        return st.sampled_from((*known * 3, *missing) if self.wild else known)


SOUND, WILD = Kinds(), Kinds(wild=True)


@st.composite
def policies(draw: st.DrawFn, *, extras: bool = True) -> Policy:
    """Classical or fair sharing by any strategies; with `extras`, other settings and gates too."""
    fair = st.sampled_from(
        [None, None, (), (FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE)]
    )
    if not extras:
        return Policy(fair_sharing=draw(fair))
    odd = st.sampled_from(
        [
            Gate.PrioritizePreemptorWorkloads,
            Gate.PrioritySortingWithinCohort,
            Gate.FlavorFungibility,
            Gate.FlavorFungibilityPreserveScanProgress,
            Gate.RecomputeAssignmentUponPreemptionTargetsOverlap,
            Gate.FairSharingPreemptWithinNominal,
            Gate.FairSharingPrioritizeNonBorrowing,
            Gate.PartialAdmission,
        ]
    )
    flipped = {str(gate): not Gates().on(gate) for gate in draw(st.sets(odd, max_size=2))}
    return Policy(
        gates=Gates.of(flipped, check=False),
        fair_sharing=draw(fair),
        admission_fair_sharing=draw(
            st.sampled_from([None, None, AdmissionFairSharing(half_life_s=60.0)])
        ),
        ignore_undeclared=draw(st.booleans()),
        block_until_ready=draw(st.integers(0, 5)) == 0,
    )


@st.composite
def quotas(draw: st.DrawFn, kinds: Kinds, *, limited: bool) -> Quota:
    nominal = draw(kinds.nominal)
    if not limited:
        return Quota(nominal)
    limits = st.none() | st.none() | kinds.limits
    borrowing, lending = draw(limits), draw(limits)
    if lending is not None and not kinds.wild:
        lending = min(lending, nominal)
    return Quota(nominal, borrowing, lending)


@st.composite
def tables(draw: st.DrawFn, kinds: Kinds, *, limited: bool) -> dict[str, int | Quota]:
    """Quotas by flavor and resource, for `build.groups`."""
    pairs = (FLAVORS[:1], FLAVORS[:1], FLAVORS, FLAVORS[::-1])
    flavors = draw(st.sampled_from((*pairs * 3, (*FLAVORS, "gone")) if kinds.wild else pairs))
    known = (*[RESOURCES] * 9, RESOURCES[:1])
    resources = draw(st.sampled_from((*known, (*RESOURCES, "pods")) if kinds.wild else known))
    return {
        f"{flavor}/{resource}": draw(quotas(kinds, limited=limited))
        for resource in resources
        for flavor in flavors
    }


@st.composite
def cohorts(draw: st.DrawFn, kinds: Kinds) -> Cohort:
    """Any parent in the wild: a missing one, the cohort itself, one of its children."""
    name = draw(st.sampled_from(COHORTS))
    above = COHORTS if kinds.wild else COHORTS[: COHORTS.index(name)]
    parent = draw(st.sampled_from(("", *above)))
    bare = draw(st.booleans())
    limited = kinds.wild or bool(parent)
    return Cohort(
        name=name,
        parent=parent,
        groups=() if bare else groups(draw(tables(kinds, limited=limited))),
        weight=draw(st.sampled_from([0.0, 1.0, 2.5])),
    )


@st.composite
def cluster_queues(draw: st.DrawFn, kinds: Kinds, names: tuple[str, ...] = QUEUES) -> ClusterQueue:
    cohort = draw(st.sampled_from((*COHORTS[:2] * 2, *COHORTS, "")))
    reclaim = draw(st.sampled_from(_RECLAIM))
    odd = st.integers(0, 19)
    return ClusterQueue(
        name=draw(st.sampled_from(names)),
        cohort=cohort,
        groups=groups(draw(tables(kinds, limited=kinds.wild or bool(cohort)))),
        strategy=draw(st.sampled_from(("BestEffortFIFO", "StrictFIFO"))),
        stop_policy="Hold" if draw(odd) == 0 else "None",
        namespace_selector=None if draw(odd) == 0 else LabelSelector(),
        fungibility=Fungibility(
            when_can_borrow=draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
            when_can_preempt=draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
            preference=draw(st.sampled_from(("", "PreemptionOverBorrowing"))),
        ),
        preemption=Preemption(
            within_cluster_queue=draw(st.sampled_from(_WITHIN)),
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=draw(st.booleans()) and (kinds.wild or reclaim != "Never"),
            borrow_max_priority=draw(st.none() | st.integers(-1, 1)),
        ),
        weight=draw(st.sampled_from([0.0, 1.0, 2.5])),
        checks=(CheckRule(name="check"),) if draw(odd) == 0 else (),
        usage_based=draw(st.booleans()),
        concurrent_admission=ConcurrentAdmission() if kinds.wild and draw(odd) == 0 else None,
    )


@st.composite
def local_queues(draw: st.DrawFn, kinds: Kinds) -> LocalQueue:
    return LocalQueue(
        key=key(draw(st.sampled_from(LOCAL_QUEUES))),
        cluster_queue=draw(kinds.names(QUEUES, "gone", "")),
        stop_policy="Hold" if draw(st.integers(0, 9)) == 0 else "None",
        weight=draw(st.sampled_from([0.0, 1.0, 2.0])),
    )


@st.composite
def flavors(draw: st.DrawFn) -> ResourceFlavor:
    return ResourceFlavor(
        name=draw(st.sampled_from(FLAVORS)),
        taints=(_TAINT,) if draw(st.integers(0, 3)) == 0 else (),
        topology="topology" if draw(st.integers(0, 9)) == 0 else "",
    )


@st.composite
def pod_sets(draw: st.DrawFn, kinds: Kinds, name: str) -> PodSet:
    count = draw(kinds.counts)
    tolerant = draw(st.booleans())
    spec = PodSpec(tolerations=[Toleration(operator="Exists")] if tolerant else None)
    few = 0 if kinds.wild and draw(st.integers(0, 9)) == 0 else 1
    wanted = kinds.names(RESOURCES, "other") if few == 0 else st.sampled_from(RESOURCES)
    requests = draw(st.dictionaries(wanted, kinds.requests, min_size=few, max_size=2))
    fewer = st.integers(0, max(0, count)) if kinds.wild else st.integers(1, count)
    return PodSet(
        name=name,
        count=count,
        pods=draw(st.integers(0, 2)) if kinds.wild else count,
        requests={resource: amount * count for resource, amount in requests.items()},
        min_count=draw(st.none() | fewer),
        group=draw(st.sampled_from(("", "", "together"))),
        template=PodTemplateSpec(spec=spec),
    )


@st.composite
def workloads(
    draw: st.DrawFn, kinds: Kinds, names: tuple[str, ...] = WORKLOADS, *, fresh: bool = False
) -> Workload:
    """A workload that waits; unless `fresh`, perhaps with a past, and in the wild with quota."""
    name = draw(st.sampled_from(names))
    sizes = st.sampled_from((1, 1, 1, 1, 2, 3, 0) if kinds.wild else (1, 1, 1, 1, 2))
    doubled = kinds.wild and draw(st.integers(0, 9)) == 0
    sets = tuple(
        draw(pod_sets(kinds, "same" if doubled else f"p{number}")) for number in range(draw(sizes))
    )
    priority = draw(st.integers(-1, 2))
    plain = Workload(
        key=key(name),
        uid=name,
        generation=draw(st.integers(1, 3)),
        queue=draw(kinds.names(LOCAL_QUEUES, "gone")),
        priority=priority,
        created=float(draw(st.integers(0, 9))),
        pod_sets=sets,
        class_id=class_id(sets, priority) if draw(st.booleans()) else "",
    )
    return plain if fresh else draw(_with_past(kinds, plain))


@st.composite
def _with_past(draw: st.DrawFn, kinds: Kinds, plain: Workload) -> Workload:
    odd = st.integers(0, 19)
    evicted = Eviction(reason=draw(st.sampled_from(("Preempted", "AdmissionCheck"))), at=5.0)
    replaces = key(draw(st.sampled_from(WORKLOADS)))
    return msgspec.structs.replace(
        plain,
        active=draw(odd) != 0,
        finished=draw(odd) == 0,
        on_hold=draw(odd) == 0,
        waiting_for_pods=draw(odd) == 0,
        gated_by="someone" if draw(odd) == 0 else "",
        evicted=evicted if draw(odd) == 0 else None,
        requeued=draw(st.sampled_from((None, None, True, False))),
        requeue_at=float(draw(st.integers(0, 30))) if draw(odd) == 0 else None,
        checks={"check": "Retry"} if draw(odd) == 0 else {},
        closed_gates=draw(odd) == 0,
        reservation=draw(st.none() | reservations(kinds)) if kinds.wild else None,
        replaces=replaces if kinds.wild and draw(odd) == 0 else None,
        pods_ready=draw(st.booleans()),
        allowed_flavors=frozenset({"f1"}) if draw(odd) == 0 else None,
        parent_uid="parent" if draw(odd) == 0 else "",
        unhealthy_nodes=("node",) if kinds.wild and draw(odd) == 0 else (),
    )


@st.composite
def reservations(draw: st.DrawFn, kinds: Kinds) -> Reservation:
    """Quota held already, in whichever queue and columns; the queue may be missing."""
    table = draw(tables(kinds, limited=False))
    columns = groups(table)
    usage = {c: q.nominal for group in columns for c, q in group.quotas.items()}
    return Reservation(
        cluster_queue=draw(kinds.names(QUEUES, "gone")),
        pod_sets=(
            Assigned(
                name="p0",
                flavors={column.resource: column.flavor for column in usage},
                requests={column.resource: amount for column, amount in usage.items()},
                count=1,
            ),
        ),
        usage=usage,
        since=draw(st.none() | st.integers(0, 9).map(float)),
    )


def objects(kinds: Kinds) -> st.SearchStrategy[Known]:
    """Anything that can be told of."""
    return st.one_of(
        workloads(kinds),
        workloads(kinds),
        cluster_queues(kinds),
        cohorts(kinds),
        local_queues(kinds),
        flavors(),
        st.builds(Topology, name=st.just("topology")),
        st.builds(AdmissionCheck, name=st.just("check"), active=st.booleans()),
        st.builds(Namespace, name=st.just("default")),
    )


_NAMES: dict[type[Known], tuple[str, ...]] = {
    Workload: WORKLOADS,
    ClusterQueue: QUEUES,
    Cohort: COHORTS,
    LocalQueue: LOCAL_QUEUES,
    ResourceFlavor: FLAVORS,
    Topology: ("topology",),
    AdmissionCheck: ("check",),
    Namespace: ("default",),
}


@st.composite
def departures(draw: st.DrawFn) -> Gone:
    seldom = draw(st.integers(0, 3)) == 0
    kind = draw(st.sampled_from(list(_NAMES) if seldom else list(_NAMES)[:4]))
    name = draw(st.sampled_from(_NAMES[kind]))
    namespaced = kind in (Workload, LocalQueue)
    return Gone(kind=kind, key=key(name) if namespaced else Key("", name))


def facts(kinds: Kinds) -> st.SearchStrategy[Fact]:
    """Anything that can happen: objects come, change and go, and writes fail."""
    told = st.builds(lambda value: Stored(value=value), objects(kinds))
    names = st.sampled_from(WORKLOADS).map(key)
    failed = st.builds(lambda each: AdmissionFailed(key=each), names)
    stayed = st.builds(lambda each: EvictionFailed(key=each), names)
    return st.one_of(told, told, told, told, departures(), failed | stayed)


def _cohort_trees(kinds: Kinds) -> st.SearchStrategy[list[Cohort]]:
    return st.lists(cohorts(kinds), max_size=4, unique_by=lambda each: each.name)


@st.composite
def clusters(draw: st.DrawFn, kinds: Kinds) -> list[Known]:
    """Everything but workloads, in an order in which all that is named exists when it is needed."""
    made: list[Known] = [Namespace(name="default"), AdmissionCheck(name="check", active=True)]
    made += [ResourceFlavor(name=name) for name in FLAVORS]
    made += draw(_cohort_trees(kinds))
    made += [draw(cluster_queues(kinds, (name,))) for name in QUEUES]
    made += [
        LocalQueue(key=key(local), cluster_queue=name)
        for local, name in zip(LOCAL_QUEUES, QUEUES, strict=True)
    ]
    return made


def crowds(kinds: Kinds, most: int = 10) -> st.SearchStrategy[list[Workload]]:
    """Several workloads that were just submitted."""
    fresh = workloads(kinds, fresh=True)
    return st.lists(fresh, min_size=most // 2, max_size=most, unique_by=lambda each: each.key)
