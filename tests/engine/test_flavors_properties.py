# SPDX-License-Identifier: Apache-2.0
"""Invariants of flavor assignment for any queues, usage and workload."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.offers import PREEMPTION_FIRST, STOP_AT_PREEMPT, TRY_BOTH, OfferedQueue, workload
from kuota.api.core import Taint
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.assignment import (
    AssignmentMode,
    OracleResult,
    PreemptionPossibility,
    ScanProgress,
    WorkloadAssignment,
)
from kuota.engine.model import Fungibility, PodSet, Quota, ResourceFlavor, Workload
from kuota.engine.tree import QuotaTree

FLAVORS = ("f0", "f1", "f2")
RESOURCES = ("cpu", "memory", "pods")

limits = st.none() | st.integers(0, 6)
quotas = st.builds(Quota, st.integers(0, 8), limits, limits)
verdicts = st.builds(OracleResult, st.sampled_from(PreemptionPossibility), st.integers(0, 2))
rules = st.sampled_from([Fungibility(), TRY_BOTH, PREEMPTION_FIRST, STOP_AT_PREEMPT])


@st.composite
def markets(draw: st.DrawFn) -> OfferedQueue:
    flavors = draw(st.permutations(FLAVORS))[: draw(st.integers(0, 3))]
    table = {name: {each: draw(quotas) for each in RESOURCES} for name in flavors}
    split = draw(st.booleans())
    market = OfferedQueue(
        *(
            [{name: {"cpu": row["cpu"], "memory": row["memory"]} for name, row in table.items()}]
            if split
            else [table]
        ),
        cohort=draw(st.sampled_from(["", "team"])),
        fungibility=draw(rules),
        gates={"FlavorFungibility": draw(st.booleans())},
        flavors=[_flavor(name, draw(st.integers(0, 3))) for name in flavors],
    )
    other = market.neighbour(table, cohort="team")
    for queue in (market.queue, other):
        for name in flavors:
            market.use(f"{name}/cpu", draw(st.integers(0, 9)), queue)
            market.answer(f"{name}/cpu", *_answer(draw(verdicts)))
    return market


def _answer(result: OracleResult) -> tuple[PreemptionPossibility, int]:
    return result.possibility, result.height


def _flavor(name: str, kind: int) -> ResourceFlavor:
    taint = Taint(key="t", value="v", effect="NoSchedule")
    return ResourceFlavor(
        name=name,
        taints=(taint,) if kind == 1 else (),
        labels={"zone": "a"} if kind == 2 else {},
        topology="missing" if kind == 3 else "",
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    return workload(*(_pod_set(draw, name) for name in names))


def _pod_set(draw: st.DrawFn, name: str) -> PodSet:
    count = draw(st.integers(0, 3))
    asked = draw(
        st.dictionaries(st.sampled_from(["cpu", "memory", "tpu"]), st.integers(0, 4), max_size=3)
    )
    return PodSet(
        name=name,
        count=count,
        pods=count,
        requests={resource: amount * count for resource, amount in asked.items()},
        group=draw(st.sampled_from(["", "g"])),
    )


bookmarks = st.none() | st.builds(
    ScanProgress,
    tried=st.lists(
        st.dictionaries(st.sampled_from(RESOURCES), st.none() | st.integers(0, 4)), max_size=3
    ).map(tuple),
)


def recounted(assignment: WorkloadAssignment) -> Amounts:
    total: Amounts = {}
    for each in assignment.pod_sets:
        for resource, choice in each.flavors.items():
            if resource in each.requests:
                column = FlavorResource(choice.flavor, resource)
                total[column] = total.get(column, 0) + each.requests[resource]
    return total


def used(tree: QuotaTree) -> dict[tuple[str, str], int]:
    nodes = [*tree.queues.values(), *tree.cohorts.values()]
    return {
        (node.name, str(column)): cell.used
        for node in nodes
        for column, cell in node.cells.items()
        if cell.used
    }


@settings(max_examples=200)
@given(markets(), workloads(), bookmarks)
def test_an_assignment_keeps_its_promises_and_changes_nothing(
    market: OfferedQueue, wanted: Workload, progress: ScanProgress | None
) -> None:
    before = used(market.tree)

    found = market.assign(wanted, progress=progress)

    assert before == used(market.tree)
    assert market.assign(wanted, progress=progress) == found
    assert recounted(found) == found.usage
    assert (AssignmentMode.NO_FIT is found.mode) == (
        found.no_fit is not None or not wanted.pod_sets
    )
    if wanted.pod_sets:
        assert min(each.mode for each in found.pod_sets) is found.mode


@pytest.mark.slow
@settings(max_examples=200)
@given(markets(), workloads())
def test_a_fit_has_room_in_the_tree_unless_preemption_goes_before_borrowing(
    market: OfferedQueue, wanted: Workload
) -> None:
    found = market.assign(wanted)

    mixed = market.queue.spec.fungibility is PREEMPTION_FIRST
    if found.mode is AssignmentMode.FIT and not mixed:
        assert market.queue.node.fits(found.usage)
        assert all(
            choice.mode is AssignmentMode.FIT
            for each in found.pod_sets
            for choice in each.flavors.values()
        )


@settings(max_examples=100)
@given(markets(), workloads())
def test_every_flavor_is_one_the_queue_offers_for_the_resource(
    market: OfferedQueue, wanted: Workload
) -> None:
    for each in market.assign(wanted).pod_sets:
        for resource, choice in each.flavors.items():
            groups = [one for one in market.queue.spec.groups if resource in one.resources]
            assert choice.flavor in groups[0].flavors


@settings(max_examples=100)
@given(markets(), workloads())
def test_flavors_that_were_found_stay_when_they_are_pinned(
    market: OfferedQueue, wanted: Workload
) -> None:
    found = market.assign(wanted)
    if found.mode is AssignmentMode.NO_FIT:
        return

    again = market.assign(wanted, pinned=found.pinned)

    assert found.pinned == again.pinned
    assert found.mode is again.mode
