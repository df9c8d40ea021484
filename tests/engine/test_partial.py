# SPDX-License-Identifier: Apache-2.0
"""The search over pod counts in partial admission."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.offers import pods, workload
from kuota.engine.model import Workload
from kuota.engine.nominate import counts_at, partial


def shrinkable(*sizes: tuple[int, int | None]) -> Workload:
    return workload(
        *(pods(f"p{at}", count, min_count=least) for at, (count, least) in enumerate(sizes))
    )


def test_all_pod_sets_shrink_in_proportion_rounded_down() -> None:
    table = [tuple(counts_at(step, [10, 4], [6, 2])) for step in range(9)]

    assert [
        (10, 4),
        (10, 4),
        (9, 4),
        (8, 4),
        (7, 3),
        (7, 3),
        (6, 3),
        (5, 3),
        (4, 2),
    ] == table


def test_a_workload_that_may_not_shrink_is_never_tried() -> None:
    def refuse(counts: list[int]) -> int | None:
        raise AssertionError(counts)

    assert partial(shrinkable((3, None), (2, 2)), refuse) is None
    assert partial(shrinkable(), refuse) is None
    assert partial(shrinkable((0, 0)), refuse) is None


def test_the_largest_size_that_works_is_taken() -> None:
    assert [7, 3] == partial(shrinkable((10, 4), (4, 2)), lambda c: c if sum(c) <= 10 else None)


def test_the_full_size_is_tried_too() -> None:
    assert [10, 4] == partial(shrinkable((10, 4), (4, 2)), lambda c: c)


def test_no_size_that_works_is_no_answer() -> None:
    assert partial(shrinkable((10, 4)), lambda counts: None) is None


def test_a_larger_size_that_works_is_missed_where_one_between_does_not() -> None:
    """As in Kueue: a size that fails is taken to mean that every larger one does."""
    tried: list[int] = []

    def some(counts: list[int]) -> int | None:
        tried.append(counts[0])
        return counts[0] if counts[0] in (8, 5) else None

    assert 5 == partial(shrinkable((8, 3)), some)
    assert [5, 7, 6] == tried


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=4),
    st.integers(0, 200),
)
def test_a_size_is_found_exactly_when_the_smallest_works(
    sizes: list[tuple[int, int]], limit: int
) -> None:
    wanted = shrinkable(*((max(pair), min(pair)) for pair in sizes))
    smallest = sum(min(pair) for pair in sizes)
    may_shrink = any(a != b for a, b in sizes)

    found = partial(wanted, lambda counts: sum(counts) if sum(counts) <= limit else None)

    assert (may_shrink and smallest <= limit) == (found is not None)
    assert found is None or smallest <= found <= limit
