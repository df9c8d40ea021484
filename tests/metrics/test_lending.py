# SPDX-License-Identifier: Apache-2.0
"""Who lends how much, from the quota tree alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import cohort, column, queue
from kuota.engine.model import Quota
from kuota.engine.tree import QuotaNode, QuotaTree, charge
from kuota.metrics.lending import lent_by_queue

GPU = column("gpu")


def tree_of(
    *queues: tuple[str, str, Quota, int], cohorts: tuple[tuple[str, str, int], ...]
) -> QuotaTree:
    """Queues by name, cohort, quota and usage; cohorts by name, parent and quota."""
    tree = QuotaTree()
    for name, parent, own in cohorts:
        spec = cohort(name, parent=parent, gpu=own)
        tree.put_cohort(name, parent, spec.groups, 1.0)
    for name, parent, quota, _ in queues:
        tree.put_queue(name, parent, queue(name, {"gpu": quota}).groups, 1.0)
    for name, _, _, used in queues:
        charge(tree.queues[name].cell(GPU), used)
    return tree


def lent(tree: QuotaTree, root: str = "root") -> dict[str, float]:
    return dict(lent_by_queue(tree.cohorts[root], GPU))


def test_borrowed_quota_is_taken_in_proportion_to_what_is_unused() -> None:
    tree = tree_of(
        ("a", "root", Quota(0), 3),
        ("b", "root", Quota(4), 0),
        ("c", "root", Quota(6), 4),
        cohorts=(("root", "", 0),),
    )
    assert {"b": pytest.approx(2.0), "c": pytest.approx(1.0)} == lent(tree)


def test_the_quota_of_the_cohort_is_lent_first() -> None:
    tree = tree_of(
        ("a", "root", Quota(0), 3), ("b", "root", Quota(4), 0), cohorts=(("root", "", 2),)
    )
    assert {"b": 1.0} == lent(tree)


def test_a_lending_limit_bounds_what_is_lent() -> None:
    tree = tree_of(
        ("a", "root", Quota(0), 2),
        ("b", "root", Quota(4, lending_limit=1), 0),
        ("c", "root", Quota(1), 0),
        cohorts=(("root", "", 0),),
    )
    assert {"b": 1.0, "c": 1.0} == lent(tree)


def test_a_cohort_lends_what_its_members_do_not_use() -> None:
    tree = tree_of(
        ("a", "left", Quota(1), 5),
        ("b", "right", Quota(2), 0),
        ("c", "right", Quota(2), 0),
        cohorts=(("root", "", 0), ("left", "root", 0), ("right", "root", 0)),
    )
    assert {"b": 2.0, "c": 2.0} == lent(tree)


def test_siblings_lend_before_the_cohorts_above() -> None:
    tree = tree_of(
        ("a", "left", Quota(1), 3),
        ("b", "left", Quota(2), 0),
        ("c", "root", Quota(5), 0),
        cohorts=(("root", "", 0), ("left", "root", 0)),
    )
    assert {"b": 2.0} == lent(tree)


_QUEUES = st.lists(
    st.tuples(
        st.sampled_from(["root", "left", "right"]),
        st.integers(0, 8),
        st.one_of(st.none(), st.integers(0, 8)),
        st.integers(0, 8),
    ),
    max_size=8,
)


@given(_QUEUES)
def test_lent_and_borrowed_amounts_agree(given: list[tuple[str, int, int | None, int]]) -> None:
    cohorts = (("root", "", 0), ("left", "root", 0), ("right", "root", 0))
    specs = [
        (f"q{at}", parent, Quota(nominal, lending_limit=limit), used)
        for at, (parent, nominal, limit, used) in enumerate(given)
    ]
    tree = tree_of(*specs, cohorts=cohorts)
    found = lent(tree)
    borrowed = sum(max(0, used - quota.nominal) for _, _, quota, used in specs)
    for name, _, quota, used in specs:
        assert 0 <= found.get(name, 0.0) <= max(0, quota.nominal - used) + 1e-9
    assert sum(found.values()) <= borrowed + 1e-9
    if _satisfied(tree.cohorts["root"]):
        assert sum(found.values()) == pytest.approx(borrowed)


def _satisfied(root: QuotaNode) -> bool:
    """Whether no subtree uses more than the tree can give it."""
    cells = [root.cells.get(GPU)]
    return all(each is None or each.used <= each.subtree for each in cells)
