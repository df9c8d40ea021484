# SPDX-License-Identifier: Apache-2.0
"""Round trips between the API versions lose nothing that both can represent."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.api.convert import convert
from kuota.api.topology_codec import AssignedDomain, compact, expand

NAMES = st.text("abc-0", min_size=1, max_size=6)
LEVELS = st.sampled_from([["kubernetes.io/hostname"], ["rack"], ["rack", "kubernetes.io/hostname"]])
FAR_FIELDS = st.dictionaries(st.sampled_from(["x", "futureField"]), st.integers(), max_size=2)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Objects with any of the fields present."""
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def domains(draw: st.DrawFn, width: int) -> list[Json]:
    row = st.fixed_dictionaries(
        {"values": st.lists(NAMES, min_size=width, max_size=width), "count": st.integers(1, 3)}
    )
    return draw(st.lists(row, max_size=8))


@st.composite
def assignments(draw: st.DrawFn) -> Json:
    levels = draw(LEVELS)
    return {"levels": levels, "domains": draw(domains(len(levels)))}


WORKLOADS_OLD = st.builds(
    lambda spec, status: {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "spec": spec,
        "status": status,
    },
    st.one_of(
        optional(queueName=NAMES, priority=st.integers(), x=st.integers()),
        st.fixed_dictionaries(
            {
                "priorityClassName": NAMES,
                "priorityClassSource": st.sampled_from(
                    ["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass"]
                ),
            }
        ),
    ),
    optional(
        accumulatedPastExexcutionTimeSeconds=st.integers(0, 9),
        clusterName=NAMES,
        admission=st.builds(
            lambda found: {"podSetAssignments": [{"topologyAssignment": each} for each in found]},
            st.lists(assignments(), max_size=2),
        ),
    ),
)

CHECKS = st.lists(
    optional(name=NAMES, onFlavors=st.lists(NAMES, max_size=2)), min_size=1, max_size=3
)
CLUSTER_QUEUES_NEW = st.builds(
    lambda spec, status: {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "spec": spec,
        "status": status,
    },
    optional(
        cohortName=NAMES,
        admissionChecksStrategy=optional(admissionChecks=CHECKS),
        flavorFungibility=optional(
            whenCanBorrow=st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
            whenCanPreempt=st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
        ),
        resourceGroups=st.lists(FAR_FIELDS, max_size=2),
    ),
    optional(pendingWorkloads=st.integers(0, 9), fairSharing=optional(weightedShare=st.integers())),
)

LOCAL_QUEUES_NEW = st.builds(
    lambda status: {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "status": status,
    },
    optional(flavorsUsage=st.lists(FAR_FIELDS, max_size=2), flavorsReservation=st.just([])),
)

CLUSTERS_NEW = st.builds(
    lambda source: {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "MultiKueueCluster",
        "spec": {"clusterSource": source},
    },
    st.one_of(
        st.fixed_dictionaries({"kubeConfig": st.fixed_dictionaries({"location": NAMES})}),
        st.fixed_dictionaries({"clusterProfileRef": st.fixed_dictionaries({"name": NAMES})}),
    ),
)


@settings(max_examples=60, deadline=None)
@given(WORKLOADS_OLD)
def test_a_workload_survives_the_way_up_and_down(workload: Json) -> None:
    assert workload == convert(convert(workload, "v1beta2"), "v1beta1")


@settings(max_examples=60, deadline=None)
@given(st.one_of(CLUSTER_QUEUES_NEW, LOCAL_QUEUES_NEW, CLUSTERS_NEW))
def test_what_v1beta1_can_say_survives_the_way_down_and_up(obj: Json) -> None:
    assert obj == convert(convert(obj, "v1beta1"), "v1beta2")


@settings(max_examples=60, deadline=None)
@given(WORKLOADS_OLD)
def test_a_second_round_trip_changes_nothing_more(workload: Json) -> None:
    once = convert(workload, "v1beta2")
    assert once == convert(convert(once, "v1beta1"), "v1beta2")


@settings(max_examples=100, deadline=None)
@given(
    LEVELS,
    st.lists(st.tuples(st.lists(NAMES, max_size=3), st.integers(0, 3)), max_size=12),
    st.booleans(),
)
def test_compact_assignments_expand_to_what_went_in(
    levels: list[str], rows: list[tuple[list[str], int]], by_prefix: bool
) -> None:
    places = [AssignedDomain(values, count) for values, count in rows]
    stored = compact(levels, places, by_prefix)
    assert places == expand(stored)
