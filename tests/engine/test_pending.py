# SPDX-License-Identifier: Apache-2.0
"""Pending workloads of a ClusterQueue: order, inadmissibility, classes, backoff, stickiness."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.engine.assignment import ScanProgress
from kuota.engine.model import Eviction, Workload
from kuota.engine.pending import PendingQueue, PendingState
from kuota.engine.policy import Policy
from kuota.engine.reasons import RequeueReason, WaitReason

NOW = 1000.0
LOST = RequeueReason.FAILED_AFTER_NOMINATION


def everywhere(namespace: str) -> bool:
    return True


def job(name: str, **fields: Any) -> Workload:
    """A workload of namespace "team" unless its name says otherwise."""
    key = Key.parse(name) if "/" in name else Key("team", name)
    return Workload(key=key, uid=name, generation=fields.pop("generation", 1), **fields)


def changed(workload: Workload, **fields: Any) -> Workload:
    return msgspec.structs.replace(workload, **fields)


def queue_of(*workloads: Workload, strict: bool = False, **options: Any) -> PendingQueue:
    queue = PendingQueue("cq", strict=strict, **options)
    for each in workloads:
        queue.put(each, NOW)
    return queue


def popped(queue: PendingQueue) -> str | None:
    pending = queue.pop()
    return pending.key.name if pending else None


def drained(queue: PendingQueue) -> list[str]:
    return list(itertools.takewhile(bool, (popped(queue) or "" for _ in itertools.count())))


def bounced(queue: PendingQueue, reason: RequeueReason, **options: Any) -> Workload:
    """Pop the head and requeue it."""
    pending = queue.pop()
    assert pending is not None
    queue.requeue(pending.workload, reason, NOW, **options)
    return pending.workload


def test_priority_then_time_then_uid_then_key_decide() -> None:
    queue = queue_of(
        job("late", created=2.0),
        job("early", created=1.0),
        job("high", created=3.0, priority=1),
        changed(job("b"), created=2.0, uid="late"),
        changed(job("a"), created=2.0, uid="early-uid"),
    )
    assert drained(queue) == ["high", "early", "a", "b", "late"]


def test_a_workload_evicted_by_its_checks_is_ranked_by_its_eviction() -> None:
    evicted = job("evicted", created=1.0, evicted=Eviction(reason="AdmissionCheck", at=5.0))
    assert drained(queue_of(evicted, job("other", created=2.0))) == ["other", "evicted"]


def test_a_reclaimed_borrower_is_ranked_by_that_only_without_priority_sorting() -> None:
    reclaimed = Eviction(reason="InCohortReclaimWhileBorrowing", at=5.0)
    jobs = (job("reclaimed", created=1.0, preempted=reclaimed), job("other", created=2.0))
    assert drained(queue_of(*jobs)) == ["reclaimed", "other"]
    gates = Gates.of({"PrioritySortingWithinCohort": False}, check=False)
    assert drained(queue_of(*jobs, policy=Policy(gates=gates))) == ["other", "reclaimed"]


@pytest.mark.parametrize(
    ("reason", "best_effort", "strict"),
    [
        (RequeueReason.GENERIC, PendingState.INADMISSIBLE, PendingState.HEAP),
        (RequeueReason.NAMESPACE_MISMATCH, PendingState.INADMISSIBLE, PendingState.INADMISSIBLE),
        (RequeueReason.INTERNAL_ERROR, PendingState.INADMISSIBLE, PendingState.INADMISSIBLE),
        (RequeueReason.NO_FIT, PendingState.INADMISSIBLE, PendingState.HEAP),
        (RequeueReason.NO_CANDIDATES, PendingState.INADMISSIBLE, PendingState.HEAP),
        (RequeueReason.GATED, PendingState.INADMISSIBLE, PendingState.HEAP),
        (RequeueReason.PENDING_PREEMPTION, PendingState.HEAP, PendingState.HEAP),
        (RequeueReason.PENDING_MIGRATION, PendingState.HEAP, PendingState.HEAP),
        (RequeueReason.PREEMPTION_FAILED, PendingState.HEAP, PendingState.HEAP),
        (LOST, PendingState.HEAP, PendingState.HEAP),
    ],
)
def test_the_reason_and_the_strategy_decide_where_a_workload_goes_back_to(
    reason: RequeueReason, best_effort: PendingState, strict: PendingState
) -> None:
    for is_strict, expected in ((False, best_effort), (True, strict)):
        queue = queue_of(job("a"), strict=is_strict)
        assert queue.state(bounced(queue, reason).key) is expected


def test_a_bookmark_before_the_last_flavor_sends_back_to_the_heap_and_comes_with_the_head() -> None:
    queue = queue_of(job("a"))
    pending = ScanProgress(tried=({"cpu": 0},))
    bounced(queue, RequeueReason.NO_FIT, progress=pending)
    head = queue.pop()
    assert head is not None
    assert head.progress == pending
    queue.requeue(head.workload, RequeueReason.NO_FIT, NOW, ScanProgress(tried=({"cpu": None},)))
    assert queue.state(head.key) is PendingState.INADMISSIBLE


def test_a_bookmark_survives_an_update_of_the_workload() -> None:
    queue = queue_of(job("a"))
    mark = ScanProgress(tried=({"cpu": 0},))
    workload = bounced(queue, LOST, progress=mark)
    queue.put(changed(workload, generation=2), NOW)
    head = queue.pop()
    assert head is not None
    assert head.progress == mark


@pytest.mark.parametrize("reason", [LOST, RequeueReason.GENERIC], ids=["heap", "inadmissible"])
def test_without_its_gate_a_bookmark_does_not_survive_any_update(reason: RequeueReason) -> None:
    gates = Gates.of({"FlavorFungibilityPreserveScanProgress": False}, check=False)
    queue = queue_of(job("a"), policy=Policy(gates=gates))
    mark = ScanProgress(tried=({"cpu": None},), scheduling_hash="")
    workload = bounced(queue, reason, progress=mark)
    queue.put(workload, NOW)
    queue.flush(NOW, everywhere)
    head = queue.pop()
    assert head is not None
    assert head.progress is None


def test_a_strict_head_blocks_smaller_ones_but_a_selector_mismatch_does_not() -> None:
    queue = queue_of(job("a", created=1.0), job("b", created=2.0), strict=True)
    bounced(queue, RequeueReason.NO_FIT)
    assert bounced(queue, RequeueReason.NAMESPACE_MISMATCH).key.name == "a"
    assert popped(queue) == "b"


def test_a_class_that_does_not_fit_is_inadmissible_unevaluated_and_others_are_not() -> None:
    queue = queue_of(
        job("a1", created=1.0, scheduling_hash="a"),
        job("a2", created=2.0, scheduling_hash="a"),
        job("other/a3", created=3.0, scheduling_hash="a"),
        job("b", created=4.0, scheduling_hash="b"),
    )
    bounced(queue, RequeueReason.NO_FIT, wait_reason=WaitReason.EXCEEDS_MAX_QUOTA)
    assert (queue.heap_size, len(queue)) == (1, 4)
    assert queue.inadmissible_reason(Key("team", "a2")) is WaitReason.EXCEEDS_MAX_QUOTA
    assert queue.inadmissible_reason(Key("team", "b")) is None
    assert drained(queue) == ["b"]


def test_a_new_workload_of_a_failed_class_is_inadmissible_until_a_flush() -> None:
    queue = queue_of(job("a", scheduling_hash="c"))
    bounced(queue, RequeueReason.NO_CANDIDATES)
    queue.put(job("new", scheduling_hash="c"), NOW)
    assert queue.state(Key("team", "new")) is PendingState.INADMISSIBLE
    assert queue.class_reason("c") is WaitReason.PENDING_EVALUATION
    assert queue.flush(NOW, everywhere) == 2
    assert queue.class_reason("c") is None
    assert drained(queue) == ["a", "new"]


def test_strict_queues_and_unknown_classes_remember_nothing() -> None:
    strict = queue_of(job("a", scheduling_hash="c"), job("b", scheduling_hash="c"), strict=True)
    bounced(strict, RequeueReason.NO_FIT)
    assert strict.class_reason("c") is None
    unknown = queue_of(job("a"), job("b"))
    bounced(unknown, RequeueReason.NO_FIT)
    assert unknown.class_reason("") is None
    assert popped(unknown) == "b"


def test_a_flush_while_a_workload_is_in_flight_sends_it_to_the_heap() -> None:
    queue = queue_of(job("a", scheduling_hash="c"))
    head = queue.pop()
    assert head is not None
    queue.flush(NOW, everywhere)
    queue.requeue(head.workload, RequeueReason.NO_FIT, NOW)
    assert queue.state(head.key) is PendingState.HEAP
    assert queue.class_reason("c") is None


def test_a_flush_leaves_namespaces_that_do_not_match() -> None:
    queue = queue_of(job("in/a", scheduling_hash="c"), job("out/b", scheduling_hash="c"))
    bounced(queue, RequeueReason.NO_FIT)
    assert queue.flush(NOW, lambda namespace: namespace == "in") == 1
    assert drained(queue) == ["a"]
    assert queue.flush(NOW, everywhere) == 1


def test_backoff_parks_even_after_a_lost_race_until_a_flush_after_its_end() -> None:
    queue = queue_of(job("a"))
    head = queue.pop()
    assert head is not None
    queue.put(changed(head.workload, requeue_at=NOW + 60), NOW)
    queue.requeue(head.workload, LOST, NOW)
    assert queue.state(head.key) is PendingState.INADMISSIBLE
    assert queue.flush(NOW + 59, everywhere) == 0
    assert queue.flush(NOW + 60, everywhere) == 1


def test_requeued_false_keeps_a_workload_inadmissible_until_it_is_true() -> None:
    drained_job = job("a", requeued=False, requeue_at=NOW + 60)
    queue = queue_of(drained_job)
    assert queue.flush(NOW + 3600, everywhere) == 0
    queue.put(changed(drained_job, requeued=True), NOW + 60)
    assert popped(queue) == "a"


def test_backoff_that_ends_earlier_than_first_said_ends_with_the_flush_after_it() -> None:
    queue = queue_of(job("a", requeue_at=NOW + 600))
    queue.put(job("a", requeue_at=NOW + 6), NOW)
    assert queue.state(Key("team", "a")) is PendingState.INADMISSIBLE
    assert queue.flush(NOW + 6, everywhere) == 1
    assert queue.flush(NOW + 600, everywhere) == 0


def test_what_is_in_the_heap_stays_there_through_updates_and_is_ranked_anew() -> None:
    queue = queue_of(job("a", created=1.0), job("b", created=2.0))
    queue.put(job("b", created=2.0, priority=5, requeue_at=NOW + 60), NOW)
    assert drained(queue) == ["b", "a"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"pods_ready": True}, PendingState.INADMISSIBLE),
        ({"checks": {"check": "Pending"}}, PendingState.INADMISSIBLE),
        ({"generation": 2}, PendingState.HEAP),
        ({"priority": 7}, PendingState.HEAP),
        ({"reclaimable": {"main": 1}}, PendingState.HEAP),
        ({"evicted": Eviction(reason="Preempted", at=1.0)}, PendingState.HEAP),
        ({"requeued": True}, PendingState.HEAP),
        ({"closed_gates": True}, PendingState.HEAP),
        ({"generation": 2, "requeue_at": NOW + 60}, PendingState.INADMISSIBLE),
    ],
)
def test_an_inadmissible_workload_is_requeued_by_relevant_changes(
    fields: dict[str, Any], expected: PendingState
) -> None:
    queue = queue_of(job("a"))
    workload = bounced(queue, RequeueReason.GENERIC)
    queue.put(changed(workload, **fields), NOW)
    assert queue.state(workload.key) is expected


def test_an_update_in_flight_is_not_lost() -> None:
    queue = queue_of(job("a", created=1.0), job("b", created=2.0))
    head = queue.pop()
    assert head is not None
    queue.put(changed(head.workload, priority=-1), NOW)
    assert head.workload.priority == 0
    queue.requeue(head.workload, LOST, NOW)
    assert drained(queue) == ["b", "a"]


def test_an_update_in_flight_that_matters_gives_another_try_of_the_changed_workload() -> None:
    queue = queue_of(job("a", scheduling_hash="big"))
    head = queue.pop()
    assert head is not None
    queue.put(changed(head.workload, scheduling_hash="small", generation=2), NOW)
    queue.requeue(head.workload, RequeueReason.NO_FIT, NOW)
    assert queue.class_reason("big") is not None
    assert queue.state(head.key) is PendingState.HEAP


def test_what_waits_already_is_not_requeued() -> None:
    queue = queue_of(job("a"))
    assert not queue.requeue(job("a"), RequeueReason.NO_FIT, NOW)
    assert queue.state(Key("team", "a")) is PendingState.HEAP
    workload = bounced(queue, RequeueReason.GENERIC)
    assert not queue.requeue(workload, RequeueReason.GENERIC, NOW)
    assert queue.requeue(workload, LOST, NOW)


def test_the_preemptor_goes_before_a_later_higher_priority_but_not_in_a_strict_queue() -> None:
    for strict, expected in ((False, ["a", "high"]), (True, ["high", "a"])):
        queue = queue_of(job("a"), strict=strict)
        bounced(queue, RequeueReason.PENDING_PREEMPTION)
        queue.put(job("high", priority=9), NOW)
        assert drained(queue) == expected


def test_the_preemptor_slot_is_for_one_workload_of_one_generation() -> None:
    queue = queue_of(job("a", created=1.0), job("b", created=2.0))
    first = bounced(queue, RequeueReason.PENDING_PREEMPTION)
    assert queue.is_preemptor(first)
    assert not queue.is_preemptor(changed(first, generation=2))
    head = queue.pop()
    assert head is not None
    assert (head.key, head.preemptor) == (first.key, True)
    second = bounced(queue, RequeueReason.PENDING_MIGRATION)
    assert not queue.is_preemptor(first)
    assert queue.is_sticky(second.key)


def test_the_preemptor_slot_survives_no_fit_and_ends_with_the_workload() -> None:
    queue = queue_of(
        job("a", created=2.0, scheduling_hash="a"), job("b", created=1.0, scheduling_hash="b")
    )
    queue.requeue(job("a", created=2.0, scheduling_hash="a"), LOST, NOW)
    bounced(queue, RequeueReason.GENERIC)
    preemptor = bounced(queue, RequeueReason.PENDING_PREEMPTION)
    assert bounced(queue, RequeueReason.NO_FIT) is preemptor
    queue.flush(NOW, everywhere)
    assert [each.key.name for each in queue.ordered()] == ["a", "b"]
    assert queue.drop(preemptor.key)
    assert not queue.is_sticky(preemptor.key)
    assert not queue.drop(preemptor.key)


def test_lower_usage_goes_before_stickiness_and_priority() -> None:
    use = {"busy": 5.0, "calm": 1.0}
    queue = queue_of(
        job("high", queue="busy", priority=9),
        job("c1", queue="calm", created=1.0),
        job("c2", queue="calm", created=2.0),
        local_queue_usage=lambda key: use[key.name],
    )
    sticky = job("sticky", queue="busy", priority=-1)
    queue.requeue(sticky, RequeueReason.PENDING_PREEMPTION, NOW)
    assert [each.key.name for each in queue.ordered()] == ["c1", "c2", "sticky", "high"]
    assert popped(queue) == "c1"
    use["calm"] = 5.0
    assert drained(queue) == ["sticky", "high", "c2"]


def queue_head(queue: PendingQueue) -> Workload:
    pending = queue.pop()
    assert pending is not None
    return pending.workload


def test_equal_usage_leaves_the_normal_order() -> None:
    jobs = (job("x", queue="x", created=2.0), job("y", queue="y", created=1.0))
    assert drained(queue_of(*jobs, local_queue_usage=lambda key: float("inf"))) == ["y", "x"]


def test_everyone_is_listed_in_order_and_stays_where_they_are() -> None:
    queue = queue_of(job("a", created=1.0), job("b", created=2.0), job("c", created=3.0))
    bounced(queue, RequeueReason.GENERIC)
    head = queue_head(queue)
    assert [each.key.name for each in queue.ordered()] == ["a", "b", "c"]
    places = [queue.state(Key("team", name)) for name in "abc"]
    assert places == [PendingState.INADMISSIBLE, PendingState.IN_FLIGHT, PendingState.HEAP]
    assert (len(queue), queue.heap_size, head.key in queue) == (3, 1, True)


def test_the_members_of_a_class_are_listed_in_order_whatever_their_state() -> None:
    others = [job(name, created=at, scheduling_hash="x") for at, name in enumerate("dab", 1)]
    queue = queue_of(*others, job("c", created=0.0, scheduling_hash="y"))
    queue.pop()
    queue.pop()
    queue.put(changed(others[0], scheduling_hash="y", generation=2), NOW)
    assert ["a", "b"] == [each.key.name for each in queue.ordered("x")]
    assert ["c", "d"] == [each.key.name for each in queue.ordered("y")]


def test_a_class_that_does_not_fit_keeps_those_in_backoff_inadmissible_past_the_next_flush() -> (
    None
):
    queue = queue_of(
        job("a", scheduling_hash="c", created=1.0), job("b", scheduling_hash="c", created=2.0)
    )
    queue.put(job("b", scheduling_hash="c", created=2.0, requeue_at=NOW + 60), NOW)
    bounced(queue, RequeueReason.NO_FIT)
    assert (queue.heap_size, len(queue)) == (0, 2)
    assert queue.flush(NOW, everywhere) == 1
    assert queue.flush(NOW + 60, everywhere) == 1
