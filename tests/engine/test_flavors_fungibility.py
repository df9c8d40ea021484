# SPDX-License-Identifier: Apache-2.0
"""Which flavor is chosen if several are possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.offers import (
    PREEMPTION_FIRST,
    STOP_AT_PREEMPT,
    TRY_BOTH,
    OfferedQueue,
    chosen,
    pods,
    workload,
)
from kuota.engine.assignment import AssignmentMode, PreemptionPossibility, WorkloadAssignment
from kuota.engine.fungibility import PreemptionMode, good_enough, preferred
from kuota.engine.model import Fungibility, Quota

DEFAULT = Fungibility()
POSSIBILITIES = {
    PreemptionMode.NO_CANDIDATES: PreemptionPossibility.NO_CANDIDATES,
    PreemptionMode.PREEMPT: PreemptionPossibility.PREEMPT,
    PreemptionMode.RECLAIM: PreemptionPossibility.RECLAIM,
}
granular_modes = st.tuples(st.sampled_from(PreemptionMode), st.integers(0, 3))
rules = st.sampled_from([None, DEFAULT, TRY_BOTH, PREEMPTION_FIRST, STOP_AT_PREEMPT])


def market(
    *flavors: tuple[PreemptionMode, int],
    fungibility: Fungibility = DEFAULT,
    gates: dict[str, bool] | None = None,
) -> OfferedQueue:
    """Flavors f0, f1, … on each of which a request of 1 cpu comes out as told.

    A fit of height 1 borrows from the cohort; preemption is needed where a neighbour has it all.
    """
    table = {f"f{at}": {"cpu": _own(mode, height)} for at, (mode, height) in enumerate(flavors)}
    made = OfferedQueue(table, cohort="team", fungibility=fungibility, gates=gates)
    other = made.neighbour({name: {"cpu": 1} for name in table}, cohort="team")
    for at, (mode, height) in enumerate(flavors):
        if mode in POSSIBILITIES:
            made.use(f"f{at}/cpu", 2, other)
            made.answer(f"f{at}/cpu", POSSIBILITIES[mode], height)
    return made


def _own(mode: PreemptionMode, height: int) -> Quota:
    if mode is PreemptionMode.NO_FIT:
        return Quota(0, borrowing_limit=0)
    return Quota(0 if mode is PreemptionMode.FIT and height else 1)


def flavor(assignment: WorkloadAssignment) -> str:
    return chosen(assignment)[0].get("cpu", "")


FIT, RECLAIM, PREEMPT, NONE, NO_FIT = (
    PreemptionMode.FIT,
    PreemptionMode.RECLAIM,
    PreemptionMode.PREEMPT,
    PreemptionMode.NO_CANDIDATES,
    PreemptionMode.NO_FIT,
)
TRY_BORROW = Fungibility(when_can_borrow="TryNextFlavor")


@pytest.mark.parametrize(
    ("flavors", "fungibility", "want", "looked_at"),
    [
        (((RECLAIM, 0), (FIT, 1)), DEFAULT, "f1", 2),
        (((RECLAIM, 0), (FIT, 1)), PREEMPTION_FIRST, "f0", 2),
        (((RECLAIM, 0), (FIT, 0)), STOP_AT_PREEMPT, "f0", 1),
        (((PREEMPT, 0), (FIT, 0)), STOP_AT_PREEMPT, "f0", 1),
        (((PREEMPT, 0), (FIT, 1)), PREEMPTION_FIRST, "f0", 2),
        (((PREEMPT, 0), (RECLAIM, 0)), DEFAULT, "f1", 2),
        (((NONE, 0), (FIT, 1)), PREEMPTION_FIRST, "f1", 2),
        (((NONE, 0), (PREEMPT, 1)), STOP_AT_PREEMPT, "f1", 2),
        (((FIT, 1), (FIT, 0)), TRY_BORROW, "f1", 2),
        (((FIT, 1), (FIT, 1)), TRY_BORROW, "f0", 2),
        (((FIT, 0), (FIT, 0)), TRY_BORROW, "f0", 1),
        (((FIT, 1), (FIT, 0)), DEFAULT, "f0", 1),
        (((NONE, 0), (NO_FIT, 0)), DEFAULT, "f0", 2),
        (((NONE, 1), (NONE, 0), (NONE, 0)), DEFAULT, "f1", 3),
        (((NO_FIT, 0), (NO_FIT, 0)), DEFAULT, "", 2),
    ],
)
def test_the_flavor_taken_follows_the_rules_of_the_queue(
    flavors: tuple[tuple[PreemptionMode, int], ...],
    fungibility: Fungibility,
    want: str,
    looked_at: int,
) -> None:
    found = market(*flavors, fungibility=fungibility).assign(workload(pods(cpu=1)))

    assert want == flavor(found)
    assert looked_at == len(found.pod_sets[0].attempts)


def test_a_flavor_without_candidates_counts_as_preemption_to_users() -> None:
    found = market((NONE, 0)).assign(workload(pods(cpu=1)))

    assert AssignmentMode.PREEMPT is found.mode
    assert "NoCandidates" == found.pod_sets[0].attempts[0].preemption


def test_a_clean_fit_forgets_the_reasons_of_flavors_tried_before() -> None:
    found = market((RECLAIM, 0), (FIT, 0)).assign(workload(pods(cpu=1)))

    assert AssignmentMode.FIT is found.mode
    assert () == found.pod_sets[0].reasons


def test_preemption_keeps_the_reasons_of_all_flavors_tried() -> None:
    found = market((PREEMPT, 0), (NO_FIT, 0)).assign(workload(pods(cpu=1)))

    assert ["f0", "f1"] == [each.flavor for each in found.pod_sets[0].reasons]


def test_a_mixed_flavor_can_pass_for_a_fit_when_preemption_goes_before_borrowing() -> None:
    """Appendix C, item 1: of preempt/0 and fit/1 the worse is taken to be fit/1."""
    made = OfferedQueue({"a": {"cpu": 4, "memory": 0}}, cohort="team", fungibility=PREEMPTION_FIRST)
    other = made.neighbour({"a": {"cpu": 0, "memory": 4}}, cohort="team")
    made.use("a/cpu", 4, other)

    found = made.assign(workload(pods(cpu=1, memory=1)))

    assert AssignmentMode.FIT is found.mode
    assert () == found.pod_sets[0].reasons
    assert AssignmentMode.PREEMPT is found.pod_sets[0].flavors["cpu"].mode


def test_an_attempt_reports_the_greatest_height_and_all_reasons_of_its_resources() -> None:
    table = {"a": {"cpu": 4, "memory": 0}}
    for fungibility, mode in (
        (DEFAULT, AssignmentMode.PREEMPT),
        (PREEMPTION_FIRST, AssignmentMode.FIT),
    ):
        made = OfferedQueue(table, cohort="team", fungibility=fungibility)
        other = made.neighbour({"a": {"cpu": 0, "memory": 4}}, cohort="team")
        made.use("a/cpu", 4, other)

        [attempt] = made.assign(workload(pods(cpu=1, memory=1))).pod_sets[0].attempts

        assert (mode, 1) == (attempt.mode, attempt.height)
        assert ["cpu"] == [each.resource for each in attempt.reasons]


@pytest.mark.parametrize(
    ("flavors", "want"),
    [
        (((FIT, 1), (FIT, 0)), "f0"),
        (((PREEMPT, 0), (FIT, 1)), "f1"),
        (((PREEMPT, 1), (RECLAIM, 0), (NO_FIT, 0)), "f1"),
    ],
)
def test_without_fungibility_the_best_mode_wins_and_nothing_is_remembered(
    flavors: tuple[tuple[PreemptionMode, int], ...], want: str
) -> None:
    made = market(*flavors, fungibility=TRY_BOTH, gates={"FlavorFungibility": False})

    found = made.assign(workload(pods(cpu=1)))

    assert want == flavor(found)
    assert () == found.progress.tried


@given(granular_modes, granular_modes, rules)
def test_no_flavor_is_better_than_one_that_is_better_than_it(
    a: tuple[PreemptionMode, int], b: tuple[PreemptionMode, int], fungibility: Fungibility | None
) -> None:
    assert not (preferred(a, b, fungibility) and preferred(b, a, fungibility))
    assert not preferred(a, a, fungibility)


@given(granular_modes, granular_modes, granular_modes, rules)
def test_better_than_a_better_one_is_better(
    a: tuple[PreemptionMode, int],
    b: tuple[PreemptionMode, int],
    c: tuple[PreemptionMode, int],
    fungibility: Fungibility | None,
) -> None:
    if preferred(a, b, fungibility) and preferred(b, c, fungibility):
        assert preferred(a, c, fungibility)


@given(granular_modes, rules)
def test_no_search_stops_where_nothing_can_be_had(
    granular_mode: tuple[PreemptionMode, int], fungibility: Fungibility | None
) -> None:
    if granular_mode[0] in (NO_FIT, NONE):
        assert not good_enough(granular_mode, fungibility)


@pytest.mark.parametrize("gates", [{}, {"FlavorFungibility": False}], ids=["on", "off"])
def test_the_preference_reports_which_resource_of_a_flavor_is_worst_even_without_the_gate(
    gates: dict[str, bool],
) -> None:
    made = OfferedQueue(
        {"a": {"cpu": 0, "gpu": 1}}, cohort="team", fungibility=PREEMPTION_FIRST, gates=gates
    )
    made.neighbour({"a": {"cpu": 1, "gpu": 0}}, cohort="team")
    made.use("a/gpu", 1)

    found = made.assign(workload(pods(cpu=1, gpu=1)))

    assert AssignmentMode.PREEMPT is found.pod_sets[0].flavors["gpu"].mode
    assert [(AssignmentMode.FIT, 1)] == [
        (each.mode, each.height) for each in found.pod_sets[0].attempts
    ]
    assert AssignmentMode.FIT is found.mode
