# SPDX-License-Identifier: Apache-2.0
"""All queues: routing by LocalQueue, heads, flushes, and the second pass."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.engine.model import (
    ClusterQueue,
    Eviction,
    LocalQueue,
    PodSetReservation,
    Reservation,
    Workload,
)
from kuota.engine.pending import PendingState
from kuota.engine.policy import AdmissionFairSharing, Policy
from kuota.engine.queues import Queues
from kuota.engine.reasons import RequeueReason
from kuota.engine.second_pass import delay_s, needs_second_pass

NOW = 1000.0
FAIR = AdmissionFairSharing(half_life_s=600.0)


def every(name: str) -> bool:
    return True


def job(name: str, queue: str = "lq", **fields: Any) -> Workload:
    return Workload(key=Key("team", name), uid=name, queue=queue, **fields)


def local(name: str, cluster_queue: str = "cq", stop_policy: str = "None") -> LocalQueue:
    return LocalQueue(key=Key("team", name), cluster_queue=cluster_queue, stop_policy=stop_policy)


def queues_of(*cluster_queues: str, **options: Any) -> Queues:
    queues = Queues(**options)
    for name in cluster_queues:
        queues.put_cluster_queue(ClusterQueue(name=name), NOW)
    queues.put_local_queue(local("lq"), NOW)
    return queues


def popped(queues: Queues, now: float = NOW) -> list[str]:
    return [head.key.name for head in queues.heads(now, every)]


def test_heads_are_one_of_every_active_queue_by_name() -> None:
    queues = queues_of("cq", "a", "idle")
    queues.put_local_queue(local("to-a", "a"), NOW)
    queues.put_local_queue(local("to-idle", "idle"), NOW)
    for workload in (job("1"), job("2", created=1.0), job("3", "to-a"), job("4", "to-idle")):
        assert queues.put_workload(workload, NOW)
    heads = queues.heads(NOW, lambda name: name != "idle")
    assert [(head.cluster_queue, head.key.name) for head in heads] == [("a", "3"), ("cq", "1")]
    assert popped(queues) == ["2", "4"]
    assert popped(queues) == []


def test_a_workload_waits_for_its_local_queue_and_that_for_its_cluster_queue() -> None:
    queues = Queues()
    assert not queues.put_workload(job("a"), NOW)
    assert queues.pending_local(Key("team", "lq")) is None
    queues.put_local_queue(local("lq"), NOW)
    assert queues.pending_local(Key("team", "lq")) == 1
    assert queues.idle
    queues.put_cluster_queue(ClusterQueue(name="cq"), NOW)
    assert popped(queues) == ["a"]


def test_a_stopped_local_queue_takes_its_workloads_out_and_brings_them_back() -> None:
    queues = queues_of("cq")
    queues.put_workload(job("a"), NOW)
    queues.put_local_queue(local("lq", stop_policy="Hold"), NOW)
    assert (queues.pending("cq"), queues.pending_local(Key("team", "lq"))) == (0, 0)
    assert not queues.put_workload(job("a", priority=1), NOW)
    queues.put_local_queue(local("lq"), NOW)
    assert (queues.pending("cq"), queues.pending_local(Key("team", "lq"))) == (1, 1)
    assert queues["cq"].ordered() == [job("a", priority=1)]


def test_a_local_queue_that_points_elsewhere_takes_its_workloads_along() -> None:
    queues = queues_of("cq", "other")
    queues.put_workload(job("a"), NOW)
    queues.put_local_queue(local("lq", "other"), NOW)
    assert (queues.pending("cq"), queues.pending("other")) == (0, 1)


def test_workloads_outlive_their_queues() -> None:
    queues = queues_of("cq")
    queues.put_workload(job("a"), NOW)
    queues.drop_cluster_queue("cq")
    queues.drop_cluster_queue("cq")
    assert "cq" not in queues
    assert queues.pending("cq") == 0
    queues.put_cluster_queue(ClusterQueue(name="cq"), NOW)
    queues.drop_local_queue(Key("team", "lq"))
    assert queues.pending("cq") == 0
    assert queues.pending_local(Key("team", "lq")) is None
    queues.put_local_queue(local("lq"), NOW)
    assert popped(queues) == ["a"]


def test_a_workload_that_may_not_wait_leaves() -> None:
    queues = queues_of("cq")
    for fields in ({"finished": True}, {"active": False}, {"on_hold": True}, {"gated_by": "x"}):
        assert queues.put_workload(job("a"), NOW)
        assert not queues.put_workload(job("a", **fields), NOW)
        assert queues.workload(Key("team", "a")) is None
        assert queues.pending("cq") == 0


def test_a_head_comes_back_as_it_is_by_now() -> None:
    queues = queues_of("cq")
    queues.put_workload(job("a"), NOW)
    (head,) = queues.heads(NOW, every)
    queues.put_workload(job("a", priority=3), NOW)
    assert queues.requeue(head.key, RequeueReason.FAILED_AFTER_NOMINATION, NOW)
    assert queues["cq"].ordered() == [job("a", priority=3)]


def test_a_head_that_is_gone_or_moved_is_not_requeued() -> None:
    queues = queues_of("cq", "other")
    queues.put_local_queue(local("to-other", "other"), NOW)
    for name in ("a", "b"):
        queues.put_workload(job(name), NOW)
    (head,) = queues.heads(NOW, every)
    queues.drop_workload(head.key)
    assert not queues.requeue(head.key, RequeueReason.NO_FIT, NOW)
    (head,) = queues.heads(NOW, every)
    queues.put_workload(job("b", "to-other"), NOW)
    assert not queues.requeue(head.key, RequeueReason.NO_FIT, NOW)
    assert queues["other"].state(head.key) is PendingState.HEAP
    assert queues.pending("cq") == 0


def test_moving_within_a_cluster_queue_gives_up_the_preemptor_slot() -> None:
    queues = queues_of("cq")
    queues.put_local_queue(local("second"), NOW)
    queues.put_workload(job("a"), NOW)
    (head,) = queues.heads(NOW, every)
    queues.requeue(head.key, RequeueReason.PENDING_PREEMPTION, NOW)
    assert queues["cq"].is_preemptor(head.workload)
    queues.put_workload(job("a", "second"), NOW)
    assert not queues["cq"].is_sticky(head.key)
    assert [each.key.name for each in queues.members(Key("team", "second"))] == ["a"]
    assert queues.members(Key("team", "lq")) == []


def test_a_flush_asks_each_queue_about_the_namespace() -> None:
    asked: list[tuple[str, str]] = []

    def matches(queue: str, namespace: str) -> bool:
        asked.append((queue, namespace))
        return queue == "cq"

    queues = queues_of("cq", "other", namespace_matches=matches)
    queues.put_local_queue(local("to-other", "other"), NOW)
    queues.put_workload(job("a"), NOW)
    queues.put_workload(job("b", "to-other"), NOW)
    for head in queues.heads(NOW, every):
        queues.requeue(head.key, RequeueReason.GENERIC, NOW)
    assert queues.idle
    assert queues.flush(["cq", "other", "missing"], NOW) == 1
    assert asked == [("cq", "team"), ("other", "team")]
    assert popped(queues) == ["a"]


def test_a_strategy_may_change_but_the_order_by_usage_is_settled_when_the_queue_is_made() -> None:
    spec = ClusterQueue(name="cq", usage_based=True)
    use = {"lq": 1.0, "second": 0.0}
    policy = Policy(admission_fair_sharing=FAIR)
    queues = Queues(policy, local_queue_usage=lambda key: use[key.name])
    queues.put_cluster_queue(spec, NOW)
    queues.put_local_queue(local("lq"), NOW)
    queues.put_local_queue(local("second"), NOW)
    queues.put_workload(job("a", priority=5), NOW)
    queues.put_workload(job("b", "second"), NOW)
    changed = msgspec.structs.replace(spec, usage_based=False, strategy="StrictFIFO")
    queues.put_cluster_queue(changed, NOW)
    (head,) = queues.heads(NOW, every)
    assert head.key.name == "b"
    queues.requeue(head.key, RequeueReason.NO_FIT, NOW)
    assert queues["cq"].state(head.key) is PendingState.HEAP


def test_usage_counts_for_nothing_without_configuration_or_gate() -> None:
    off = Gates.of({"AdmissionFairSharing": False}, check=False)
    for policy in (Policy(), Policy(gates=off, admission_fair_sharing=FAIR)):
        queues = Queues(policy, local_queue_usage=lambda key: float(key.name == "lq"))
        queues.put_cluster_queue(ClusterQueue(name="cq", usage_based=True), NOW)
        queues.put_local_queue(local("lq"), NOW)
        queues.put_local_queue(local("second"), NOW)
        queues.put_workload(job("a", priority=5), NOW)
        queues.put_workload(job("b", "second"), NOW)
        assert popped(queues) == ["a"]


def held(name: str, **fields: Any) -> Workload:
    """A workload with quota, all checks ready, and its topology still to come."""
    pod_set = PodSetReservation(
        name="main", flavors={}, requests={}, count=1, delayed_topology="Pending"
    )
    reservation = Reservation(cluster_queue="cq", pod_sets=(pod_set,), usage={})
    return job(name, reservation=reservation, checks={"prov": "Ready"}, **fields)


def test_second_passes_come_first_when_due_and_tell_so() -> None:
    queues = queues_of("cq")
    queues.put_workload(job("a"), NOW)
    assert queues.queue_second_pass(held("z"), NOW)
    assert queues.queue_second_pass(held("z"), NOW)
    assert queues.next_wakeup() == NOW + 1
    heads = queues.heads(NOW + 1, every)
    assert [(head.key.name, head.second_pass) for head in heads] == [("z", True), ("a", False)]
    assert heads[0].cluster_queue == "cq"
    assert queues.next_wakeup() is None


def test_failed_second_passes_wait_longer_each_time() -> None:
    queues, now = Queues(), NOW
    delays: list[float] = []
    queues.queue_second_pass(held("z"), now)
    while len(delays) < 8:
        due = queues.next_wakeup()
        assert due is not None
        delays.append(due - now)
        now = due
        assert popped(queues, now) == ["z"]
        assert queues.requeue_second_pass(Key("team", "z"), now)
    assert delays == [1, 2, 4, 8, 16, 30, 30, 30]
    assert delay_s(10_000) == 30


def test_a_second_pass_ends_with_its_reason() -> None:
    queues = Queues()
    key = Key("team", "z")
    evicted = held("z", evicted=Eviction(reason="Preempted", at=NOW))
    for end in (lambda: queues.put_workload(evicted, NOW), lambda: queues.drop_workload(key)):
        queues.queue_second_pass(held("z"), NOW)
        end()
        assert queues.next_wakeup() is None
        assert popped(queues, NOW + 60) == []
    queues.queue_second_pass(held("z"), NOW)
    assert popped(queues, NOW + 1) == ["z"]
    queues.put_workload(evicted, NOW)
    assert not queues.requeue_second_pass(key, NOW)


def test_a_second_pass_sees_the_newest_workload() -> None:
    queues = Queues()
    queues.queue_second_pass(held("z"), NOW)
    newest = held("z", priority=3)
    queues.put_workload(newest, NOW)
    assert [head.workload for head in queues.heads(NOW + 1, every)] == [newest]


def test_a_second_pass_is_for_reserved_workloads_that_are_all_set() -> None:
    workload = held("z")
    assert needs_second_pass(workload)
    obstacles: list[dict[str, Any]] = [
        {"checks": {}},
        {"checks": {"prov": "Pending"}},
        {"admitted": True},
        {"finished": True},
        {"on_hold": True},
        {"reservation": None},
    ]
    for fields in obstacles:
        assert not needs_second_pass(msgspec.structs.replace(workload, **fields))


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "local", "unlocal", "cluster", "uncluster", "cycle"]),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_every_workload_is_queued_exactly_where_its_queues_lead(
    story: list[tuple[str, int, int]],
) -> None:
    queues = Queues()
    feeds: dict[str, str] = {}
    known: dict[str, str] = {}
    made: set[str] = set()
    for verb, number, other in story:
        name, queue, cluster = str(number), f"lq{number % 2}", f"cq{other}"
        match verb:
            case "put":
                queues.put_workload(job(name, queue), NOW)
                known[name] = queue
            case "drop":
                queues.drop_workload(Key("team", name))
                known.pop(name, None)
            case "local":
                queues.put_local_queue(local(queue, cluster), NOW)
                feeds[queue] = cluster
            case "unlocal":
                queues.drop_local_queue(Key("team", queue))
                feeds.pop(queue, None)
            case "cluster":
                queues.put_cluster_queue(ClusterQueue(name=cluster), NOW)
                made.add(cluster)
            case "uncluster":
                queues.drop_cluster_queue(cluster)
                made.discard(cluster)
            case _:
                heads = queues.heads(NOW, every)
                assert heads == sorted(heads, key=lambda head: head.cluster_queue)
                for head in heads:
                    reason = (
                        RequeueReason.NO_FIT if other else RequeueReason.FAILED_AFTER_NOMINATION
                    )
                    assert queues.requeue(head.key, reason, NOW)
        for cluster in ("cq0", "cq1"):
            expected = {w for w, lq in known.items() if feeds.get(lq) == cluster in made}
            found = queues[cluster].ordered() if cluster in queues else []
            assert {each.key.name for each in found} == expected
