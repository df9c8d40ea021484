# SPDX-License-Identifier: Apache-2.0
"""Dominant resource shares: what counts, and how shares compare."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from engine.stage import GPU, Stage
from kuota.api.quantity import UNLIMITED
from kuota.engine.amounts import FlavorResource
from kuota.engine.fairness import DominantResourceShare, lendable, more_loaded, share
from kuota.engine.model import Quota

CPU = FlavorResource("default", "cpu")
SPOT = FlavorResource("spot", "gpu")


def two_levels() -> Stage:
    """A tree of two levels."""
    stage = Stage()
    stage.cohort("R", quota=2)
    stage.cohort("M", "R", quota=Quota(0, borrowing_limit=4, lending_limit=5))
    stage.queue("x", 8, "M")
    stage.queue("y", Quota(3, lending_limit=0), "M")
    stage.queue("z", 6, "R")
    for queue, amount in (("x", 10), ("y", 1), ("z", 4)):
        stage.run(queue, queue, amount)
    return stage


def test_usage_beyond_quota_is_measured_by_what_the_parent_could_lend() -> None:
    tree = two_levels().tree
    assert share(tree.queues["x"]).ratio == 2000 / 12
    assert share(tree.cohorts["M"]).ratio == 2000 / 13
    assert share(tree.queues["y"]) == DominantResourceShare()
    assert share(tree.queues["z"]) == DominantResourceShare()
    assert share(tree.cohorts["R"]) == DominantResourceShare()


def test_the_published_share_is_rounded_up() -> None:
    assert share(two_levels().tree.queues["x"]).published == 167


def test_a_queue_without_a_cohort_has_no_share_however_much_it_uses() -> None:
    stage = Stage()
    queue = stage.queue("a", 1, cohort="")
    stage.run("w", "a", 5)
    assert share(queue.node) == DominantResourceShare()


def test_flavors_of_one_resource_add_up_and_one_under_quota_offsets_nothing() -> None:
    stage = Stage()
    queue = stage.queue("a", {GPU: 2, SPOT: 10})
    stage.queue("b", {GPU: 8})
    stage.run("w", "a", {GPU: 4, SPOT: 1})
    found = share(queue.node)
    assert found == DominantResourceShare(100.0, 1.0, "gpu", frozenset({GPU}))
    assert found.borrowing_on([GPU])
    assert not found.borrowing_on([SPOT, CPU])


def test_of_equal_ratios_the_first_resource_by_name_is_dominant() -> None:
    stage = Stage()
    queue = stage.queue("a", {GPU: 0, CPU: 0})
    stage.queue("b", {GPU: 4, CPU: 4})
    stage.run("w", "a", {GPU: 1, CPU: 1})
    assert share(queue.node).dominant == "cpu"


def test_where_nothing_can_be_lent_the_share_is_zero_and_still_borrowing() -> None:
    stage = Stage()
    queue = stage.queue("a", 0)
    stage.run("w", "a", 3)
    found = share(queue.node)
    assert (0.0, True, 0) == (found.weighted, found.borrowing, found.published)


def test_usage_of_an_undeclared_flavor_resource_is_ignored() -> None:
    stage = Stage()
    queue = stage.queue("a", 5)
    stage.queue("b", 5)
    stage.run("w", "a", {CPU: 7})
    assert share(queue.node) == DominantResourceShare()


def test_weight_divides_and_weight_zero_is_infinite_only_when_borrowing() -> None:
    assert DominantResourceShare(400.0, 2.0).weighted == 200.0
    assert DominantResourceShare(100.0, 0.0).weighted == math.inf
    assert DominantResourceShare(100.0, 0.0).published == UNLIMITED
    assert DominantResourceShare(0.0, 0.0).weighted == 0.0
    assert DominantResourceShare(0.0, 0.0).published == 0


def test_infinite_shares_are_above_all_finite_ones_and_compare_by_ratio() -> None:
    assert more_loaded(DominantResourceShare(1.0, 0.0), DominantResourceShare(1000.0, 1e-9))
    assert more_loaded(DominantResourceShare(2.0, 0.0), DominantResourceShare(1.0, 0.0))
    assert not more_loaded(DominantResourceShare(0.0, 0.0), DominantResourceShare(0.0, 1.0))


def test_a_change_of_quota_changes_what_can_be_lent() -> None:
    stage = Stage()
    queue = stage.queue("a", 4)
    cohort = stage.tree.cohorts["team"]
    assert lendable(cohort) == {"gpu": 4}
    stage.queue("b", {GPU: 6, SPOT: 5})
    assert lendable(cohort) == {"gpu": 15}
    stage.run("w", "a", 7)
    assert share(queue.node).ratio == 200.0


shares = st.builds(
    DominantResourceShare,
    ratio=st.floats(0, 1e6),
    weight=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
)


@given(shares, shares, shares)
def test_shares_are_totally_ordered(
    one: DominantResourceShare, two: DominantResourceShare, three: DominantResourceShare
) -> None:
    assert not (more_loaded(one, two) and more_loaded(two, one))
    if more_loaded(one, two) and more_loaded(two, three):
        assert more_loaded(one, three)
    if one.weighted > two.weighted:
        assert more_loaded(one, two)
