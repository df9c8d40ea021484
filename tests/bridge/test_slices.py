# SPDX-License-Identifier: Apache-2.0
"""Slices of elastic jobs: growth, shrinking, and which of a chain stay."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.objects import condition, pod_set, workload
from kuota.api.base import Key, ObjectMeta
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.bridge.slices import (
    ELASTIC,
    OUT_OF_SYNC,
    REPLACED,
    REPLACES,
    Live,
    counts,
    elastic,
    fewer,
    latest_active,
    live_slices,
    replaces,
    resized,
    scaled_down,
)

OFF = Gates.of({"ElasticJobsViaWorkloadSlices": False}, check=False)


def part(name: str, state: str = "waiting", *, of: str = "", created: float = 0) -> Workload:
    """A slice that is `waiting`, `running` or `leaving`, made to replace the slice `of`."""
    conditions = [condition("QuotaReserved")] if state != "waiting" else []
    if state == "leaving":
        conditions.append(condition("Evicted"))
    notes = {REPLACES: f"ml/{of}"} if of else None
    return workload(name, conditions=conditions, annotations=notes, created=created)


def names(live: Live) -> tuple[str, str, dict[str, str]]:
    return (
        live.selected.metadata.name if live.selected else "",
        live.running.metadata.name if live.running else "",
        {obj.metadata.name: reason for obj, reason in live.finished},
    )


@pytest.mark.parametrize(("value", "wanted"), [("true", True), ("True", False), ("", False)])
def test_a_job_is_elastic_when_it_says_exactly_so_and_the_gate_is_on(
    value: str, wanted: bool
) -> None:
    meta = ObjectMeta(annotations={ELASTIC: value})
    assert elastic(meta, Gates()) is wanted
    assert not elastic(meta, OFF)
    assert not elastic(None, Gates())


def test_a_slice_names_the_one_it_replaces() -> None:
    assert replaces(part("b", of="a")) == Key("ml", "a")
    assert replaces(workload("b", annotations={REPLACES: "a"})) == Key("ml", "a")
    assert replaces(part("a")) is None


def test_counts_are_read_and_written_by_pod_set() -> None:
    obj = workload("train", pod_set("driver", 1), pod_set("worker", 8))
    assert counts(obj.spec.pod_sets) == {"driver": 1, "worker": 8}
    smaller = resized(obj, {"worker": 4, "unknown": 9})
    assert counts(smaller.spec.pod_sets) == {"driver": 1, "worker": 4}
    assert resized(obj, {}) == obj
    assert counts(None) == {}


@pytest.mark.parametrize(
    ("old", "new", "down"),
    [
        ({}, {}, False),
        ({"a": 3, "b": 5}, {"a": 3, "b": 4}, True),
        ({"a": 3, "b": 5}, {"a": 2, "b": 6}, False),
        ({"a": 3, "b": 5}, {"a": 3, "b": 5}, False),
        ({"a": 3, "b": 5}, {"a": 2, "c": 6}, True),
    ],
)
def test_a_job_scaled_down_when_something_shrank_and_nothing_grew(
    old: dict[str, int], new: dict[str, int], down: bool
) -> None:
    assert scaled_down(old, new) is down
    assert not (scaled_down(old, new) and scaled_down(new, old))


def test_one_smaller_pod_set_is_enough_to_have_fewer() -> None:
    assert fewer({"a": 11, "b": 2}, {"a": 10, "b": 20})
    assert not fewer({"a": 11, "b": 20}, {"a": 10, "b": 20})


def test_pods_may_run_under_the_newest_slice_with_quota_that_is_not_leaving() -> None:
    old, new = part("a", "running"), part("b", "running", created=1)
    leaving = part("c", "leaving", created=2)
    assert latest_active([old, new, leaving, part("d", created=3)]) == new
    assert latest_active([part("d")]) is None


@pytest.mark.parametrize(
    ("slices", "selected", "running", "finished"),
    [
        pytest.param([part("a", "running")], "a", "", {}, id="alone"),
        pytest.param(
            [part("a", "running"), part("b", "running", created=1)],
            "b",
            "",
            {"a": OUT_OF_SYNC},
            id="two with quota: the newer",
        ),
        pytest.param(
            [part("a", "running"), part("b", of="a", created=1)],
            "b",
            "a",
            {},
            id="growing: both stay",
        ),
        pytest.param(
            [part("a", "leaving"), part("b", created=1)],
            "b",
            "",
            {"a": OUT_OF_SYNC},
            id="evicted while growing",
        ),
        pytest.param(
            [part("a", "running"), part("b", created=1)],
            "a",
            "",
            {"b": OUT_OF_SYNC},
            id="a stranger that waits",
        ),
        pytest.param(
            [part("a", "running"), part("b", of="a", created=1), part("c", of="a", created=2)],
            "c",
            "a",
            {"b": OUT_OF_SYNC},
            id="two successors: the newer",
        ),
        pytest.param(
            [part("a", "leaving"), part("b", "leaving", of="a")],
            "",
            "",
            {"a": REPLACED, "b": OUT_OF_SYNC},
            id="all evicted",
        ),
        pytest.param(
            [part("c", "running", of="a"), part("b", of="a"), part("a", "running")],
            "c",
            "",
            {"b": OUT_OF_SYNC, "a": REPLACED},
            id="made in one second: the chain tells, not the time",
        ),
    ],
)
def test_at_most_the_slice_with_quota_and_its_successor_stay(
    slices: list[Workload], selected: str, running: str, finished: dict[str, str]
) -> None:
    assert names(live_slices(slices)) == (selected, running, finished)


@st.composite
def chains(draw: st.DrawFn) -> list[Workload]:
    size = draw(st.integers(1, 6))
    made = []
    for index in range(size):
        state = draw(st.sampled_from(["waiting", "running", "leaving"]))
        of = draw(st.sampled_from(["", *(f"s{i}" for i in range(index))]))
        made.append(part(f"s{index}", state, of=of, created=draw(st.integers(0, 2))))
    return made


def keys(slices: Iterable[Workload | None]) -> set[Key]:
    return {each.key for each in slices if each is not None}


@given(chains())
def test_slices_either_stay_or_are_finished_and_doing_it_twice_changes_nothing(
    slices: list[Workload],
) -> None:
    live = live_slices(slices)
    kept, finished = keys([live.selected, live.running]), keys(obj for obj, _ in live.finished)
    assert kept.isdisjoint(finished)
    assert kept | finished == keys(slices)
    assert len(kept) <= 2
    again = live_slices([each for each in slices if each.key in kept])
    assert again == replace(live, finished=())


@given(chains().flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))))
def test_the_order_in_which_slices_come_does_not_matter(
    orders: tuple[list[Workload], list[Workload]],
) -> None:
    one, other = map(live_slices, orders)
    assert (one.selected, one.running) == (other.selected, other.running)
