# SPDX-License-Identifier: Apache-2.0
"""Flavor assignment with previous state: scan positions, replaced slices, reservations."""

from __future__ import annotations

from engine.offers import STOP_AT_PREEMPT, OfferedQueue, chosen, pods, usage, workload
from kuota.api.base import Key
from kuota.engine.assignment import AssignmentMode, ScanProgress
from kuota.engine.model import PodSetReservation, Reservation, Workload
from kuota.engine.reasons import RejectionCause, WaitReason
from kuota.engine.snapshot import ChargedWorkload
from kuota.engine.usage import Usage


def test_a_search_that_ends_early_is_remembered_and_goes_on_there() -> None:
    market = OfferedQueue({"a": {"cpu": 4}, "b": {"cpu": 4}})
    wanted = workload(pods(cpu=1))

    first = market.assign(wanted)
    second = market.assign(wanted, progress=first.progress)
    third = market.assign(wanted, progress=second.progress)

    assert ["a", "b", "a"] == [chosen(each)[0]["cpu"] for each in (first, second, third)]
    assert first.progress.pending
    assert not second.progress.pending
    assert (7, market.queue.node.generation, "alike") == (
        first.progress.cycle,
        first.progress.generation,
        first.progress.scheduling_hash,
    )


def test_a_pod_set_that_found_a_flavor_early_keeps_its_place_when_a_later_one_fails() -> None:
    market = OfferedQueue({"a": {"cpu": 4}, "b": {"cpu": 4}})

    found = market.assign(workload(pods("one", cpu=1), pods("two", cpu=9)))

    assert ({"cpu": 0}, {}) == found.progress.tried
    assert found.progress.pending


def test_a_bookmark_past_the_last_flavor_starts_over() -> None:
    found = OfferedQueue({"a": {"cpu": 4}}).assign(
        workload(pods(cpu=1)), progress=ScanProgress(tried=({"cpu": 3},))
    )

    assert [{"cpu": "a"}] == chosen(found)


def test_every_resource_of_the_chosen_flavor_is_bookmarked() -> None:
    market = OfferedQueue(
        {"a": {"cpu": 9, "memory": 9}, "b": {"cpu": 9, "memory": 9}}, fungibility=STOP_AT_PREEMPT
    )
    market.use("a/cpu", 9)

    found = market.assign(workload(pods(cpu=1, memory=1)))

    assert ({"cpu": 0, "memory": 0},) == found.progress.tried
    assert {"cpu": AssignmentMode.PREEMPT, "memory": AssignmentMode.FIT} == {
        name: choice.mode for name, choice in found.pod_sets[0].flavors.items()
    }


def held(flavor: str, **requests: int) -> ChargedWorkload:
    """A slice that runs with these requests on one flavor."""
    assigned = PodSetReservation(
        name="main", flavors=dict.fromkeys(requests, flavor), requests=requests, count=1
    )
    old = Workload(
        key=Key("ns", "old"),
        reservation=Reservation(cluster_queue="q", pod_sets=(assigned,), usage={}),
    )
    return ChargedWorkload(old, "q", Usage())


def test_a_slice_keeps_the_flavor_of_the_one_it_replaces_and_asks_for_the_difference() -> None:
    market = OfferedQueue({"one": {"cpu": 3, "memory": 9}, "two": {"cpu": 4, "memory": 9}})
    market.use("two/cpu", 3)

    found = market.assign(workload(pods(cpu=3, memory=2)), replaced=held("two", cpu=2, memory=2))

    assert AssignmentMode.FIT is found.mode
    assert [{"memory": "two", "cpu": "two"}] == chosen(found)
    assert {"two/cpu": 1, "two/memory": 0} == usage(found)
    assert {"cpu": 3, "memory": 2} == found.pod_sets[0].requests


def test_a_slice_that_does_not_fit_beside_the_one_it_replaces_goes_nowhere_else() -> None:
    market = OfferedQueue({"one": {"cpu": 1, "memory": 9}, "two": {"cpu": 9, "memory": 9}})

    found = market.assign(workload(pods(cpu=4, memory=2)), replaced=held("one", cpu=2, memory=2))

    assert AssignmentMode.NO_FIT is found.mode
    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit
    assert [
        (RejectionCause.EXCEEDS_MAX, "one", "cpu"),
        (RejectionCause.SLICE_FLAVOR, "two", "memory"),
        (RejectionCause.SLICE_FLAVOR, "two", "cpu"),
    ] == [(each.cause, each.flavor, each.resource) for each in found.pod_sets[0].reasons]


def test_quota_is_evaluated_on_a_flavor_that_the_replaced_slice_does_not_use() -> None:
    market = OfferedQueue({"one": {"cpu": 3}, "two": {"cpu": 9}})

    found = market.assign(workload(pods(cpu=4)), replaced=held("two", cpu=2))

    assert [{"cpu": "two"}] == chosen(found)
    assert ["one", "two"] == [each.flavor for each in found.pod_sets[0].attempts]
    assert [
        (RejectionCause.SLICE_FLAVOR, 0, 0),
        (RejectionCause.EXCEEDS_MAX, 4, 3),
    ] == [
        (each.cause, each.requested, each.limit) for each in found.pod_sets[0].attempts[0].reasons
    ]


def test_a_slice_gets_no_flavor_for_a_resource_that_the_replaced_one_does_not_have() -> None:
    market = OfferedQueue({"one": {"cpu": 9, "memory": 9}})

    found = market.assign(workload(pods(cpu=3, memory=1)), replaced=held("one", cpu=2))

    assert AssignmentMode.NO_FIT is found.mode
    assert WaitReason.NO_MATCHING_FLAVOR is found.no_fit
    assert [(RejectionCause.SLICE_FLAVOR, "one", "memory", "")] == [
        (each.cause, each.flavor, each.resource, each.detail) for each in found.pod_sets[0].reasons
    ]


def test_a_workload_with_a_reservation_keeps_its_flavors_whatever_the_quota_says() -> None:
    market = OfferedQueue({"a": {"cpu": 1}})
    reserved = held("gone", cpu=5).workload

    found = market.assign(reserved)

    assert AssignmentMode.FIT is found.mode
    assert [{"cpu": "gone"}] == chosen(found)
    assert {"gone/cpu": 5} == usage(found)
