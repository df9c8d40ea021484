# SPDX-License-Identifier: Apache-2.0
"""Released quota does not requeue workloads that it could not help, and requeues all others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from build import cohort, column, flavor, job, local_queue, namespace, queue, running
from kuota.engine.assignment import AssignmentMode
from kuota.engine.decisions import Admit, Wait
from kuota.engine.entry import Entry, Head
from kuota.engine.model import ClusterQueue, Quota
from kuota.engine.nominate import nominate
from kuota.engine.pending import PendingState
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, Policy
from kuota.engine.reasons import WaitReason
from kuota.engine.unsatisfiable import AttainableQuota
from kuota.sim.simulation import Simulation


def world_of(*queues: ClusterQueue, policy: Policy | None = None) -> Simulation:
    world = Simulation(policy)
    world.store(namespace())
    world.store(flavor())
    for each in queues:
        world.store(each)
        world.store(local_queue(each.name))
    return world


def tried(world: Simulation) -> list[str]:
    """Who is looked at in the next cycle, by name."""
    return [each.workload.key.name for each in world.cycle().decisions]


def test_an_insufficient_release_requeues_nothing() -> None:
    world = world_of(queue("q", gpu=8, reclaim="Any"))
    for name in ("one", "two", "six"):
        world.store(job(name, queue="q", gpu=6 if name == "six" else 1))
    world.settle()
    world.store(job("four", queue="q", gpu=4))
    world.settle()
    world.finish(job("one").key)
    assert tried(world) == []
    world.finish(job("two").key)
    assert tried(world) == []
    world.finish(job("six").key)
    assert [type(each) for each in world.cycle().decisions] == [Admit]


def test_a_change_of_quota_wakes_everybody() -> None:
    world = world_of(queue("q", gpu=2))
    world.store(job("three", queue="q", gpu=3))
    world.store(job("nine", queue="q", gpu=9))
    world.settle()
    world.store(queue("q", gpu=4))
    story = world.settle()
    assert {each.workload.key.name: type(each) for each in story.decisions} == {
        "three": Admit,
        "nine": Wait,
    }


def test_a_victim_to_be_counts_as_room() -> None:
    world = world_of(queue("q", gpu=4, within="LowerPriority", reclaim="Any"))
    world.store(job("held", queue="q", gpu=3, priority=9))
    world.settle()
    world.store(job("wants", queue="q", gpu=4, priority=5))
    world.store(job("low", queue="q", gpu=1, priority=1))
    world.settle()
    world.store(job("held", queue="q", gpu=3, priority=9, finished=True))
    assert world.engine.state.running(job("low").key) is not None
    world.settle()
    assert world.engine.state.running(job("wants").key) is not None


def test_a_newcomer_of_an_unsatisfiable_class_is_inadmissible_too() -> None:
    world = world_of(queue("q", gpu=8, reclaim="Any"))
    world.store(job("first", queue="q", gpu=9))
    world.settle()
    world.store(job("second", queue="q", gpu=9))
    assert tried(world) == []
    pending = world.engine.queues["q"]
    assert pending.state(job("second").key) is PendingState.INADMISSIBLE
    assert pending.inadmissible_reason(job("second").key) is not None


def kept(world: Simulation) -> int:
    """How many needs the queue keeps, those of all its classes together."""
    return sum(
        len(entries) for entries in world.engine.queues["q"]._unsatisfiable._by_need.values()
    )


def test_a_class_refused_on_two_flavors_keeps_two_needs_however_often_quota_is_released() -> None:
    world = world_of(queue("q", {"default/gpu": 4, "spot/gpu": 4}, reclaim="Any"))
    world.store(flavor("spot"))
    world.store(running(job("on-spot", queue="q", gpu=3), "q", 0.0, "spot"))
    world.store(job("holder-0", queue="q", gpu=3, priority=9))
    world.settle()
    world.store(job("wants", queue="q", gpu=4))
    world.settle()
    assert kept(world) == 2
    for turn in range(1, 6):
        # The default flavor frees up, and somebody more important takes it before the class can.
        world.finish(job(f"holder-{turn - 1}").key)
        world.store(job(f"holder-{turn}", queue="q", gpu=3, priority=9))
        world.settle()
        assert kept(world) == 2


def test_needs_of_a_class_go_with_the_last_workload_of_it() -> None:
    world = world_of(queue("q", gpu=8, reclaim="Any"))
    for name in ("first", "second"):
        world.store(job(name, queue="q", gpu=9))
    world.settle()
    world.finish(job("first").key)
    assert kept(world) == 1
    world.finish(job("second").key)
    assert kept(world) == 0


def test_equal_priority_is_no_room_for_a_workload_that_may_only_displace_lower_ones() -> None:
    world = world_of(queue("q", gpu=4, within="LowerPriority", reclaim="Any"))
    for name in ("one", "two", "three", "four"):
        world.store(job(name, queue="q", gpu=1))
    world.settle()
    world.store(job("wants", queue="q", gpu=3))
    world.settle()
    world.finish(job("one").key)
    assert tried(world) == []
    world.finish(job("two").key)
    assert tried(world) == []
    world.finish(job("three").key)
    assert tried(world) == ["wants"]


def test_borrowers_are_no_room_for_a_queue_that_has_used_up_its_nominal_quota() -> None:
    world = world_of(
        queue("a", gpu=2, cohort="all", reclaim="Any"),
        queue("b", gpu=2, cohort="all", reclaim="Any"),
        queue("lender", gpu=4, cohort="all"),
    )
    for name in ("a1", "a2", "b1", "b2", "b3", "b4", "b5", "b6"):
        world.store(job(name, queue=name[0], gpu=1))
    world.settle()
    world.store(job("wants", queue="a", gpu=2))
    world.settle()
    world.finish(job("b1").key)
    assert tried(world) == []
    world.finish(job("a1").key)
    assert tried(world) == ["wants"]


def test_heads_whose_class_is_unsatisfiable_again_become_inadmissible_unevaluated() -> None:
    """Quota for one is released, and the class waits in both queues."""
    world = world_of(*(queue(name, gpu=1, cohort="all", reclaim="Any") for name in ("a", "b")))
    for name in ("a1", "b1"):
        world.store(job(name, queue=name[0], gpu=1))
    world.settle()
    for name in ("a2", "b2", "b3"):
        world.store(job(name, queue=name[0], gpu=1, created=1.0))
    world.settle()
    world.finish(job("a1").key)
    assert tried(world) == ["a2", "b2"]
    assert tried(world) == []
    pending = world.engine.queues["b"]
    for name in ("b2", "b3"):
        assert pending.state(job(name).key) is PendingState.INADMISSIBLE
        assert pending.inadmissible_reason(job(name).key) is WaitReason.WAITING_FOR_QUOTA
    assert job("b2").key not in world.engine.last
    world.finish(job("a2").key)
    assert tried(world) == ["b2"]


amounts = st.integers(min_value=0, max_value=9)
priorities = st.integers(min_value=0, max_value=3)
queues = st.builds(
    lambda nominal, limit, lend, within, reclaim, borrow, name, place: queue(
        name,
        cohort=place,
        gpu=Quota(nominal, limit, min(lend, nominal) if lend is not None else None),
        within=within,
        reclaim=reclaim,
        borrow=borrow and reclaim not in ("", "Never"),
    ),
    amounts,
    st.none() | amounts,
    st.none() | amounts,
    st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority", "")),
    st.sampled_from(("Never", "LowerPriority", "Any", "")),
    st.booleans(),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(("all", "team")),
)
crowd = st.lists(st.tuples(st.sampled_from(("a", "b", "c")), amounts, priorities), max_size=10)
sharing = st.sampled_from((None, (FINAL_SHARE, INITIAL_SHARE)))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(queues, min_size=1, max_size=4), crowd, crowd, sharing, amounts)
def test_no_workload_is_admitted_beyond_a_reported_limit(
    given_queues: list[ClusterQueue],
    residents: list[tuple[str, int, int]],
    probes: list[tuple[str, int, int]],
    strategies: tuple[str, ...] | None,
    shared: int,
) -> None:
    world = world_of(*given_queues, policy=Policy(fair_sharing=strategies))
    world.store(cohort("team", gpu=shared, parent="all"))
    for number, (name, gpu, priority) in enumerate(residents):
        world.store(job(f"r{number}", queue=name, gpu=gpu, priority=priority, created=number))
    world.settle()
    state = world.engine.state
    attainable = AttainableQuota(state.queues, fair=strategies is not None)
    for number, (name, gpu, priority) in enumerate(probes):
        if name not in state.queues or gpu <= attainable.upper_bound(name, priority, column("gpu")):
            continue
        probe = job(f"p{number}", queue=name, gpu=gpu, priority=priority, created=-1.0)
        head = Head(workload=probe, cluster_queue=name)
        entry = nominate(head, world.engine.snapshot(0.0), state.namespaces)
        assert isinstance(entry, Entry)
        assert entry.assignment.mode in (AssignmentMode.NO_FIT, AssignmentMode.PREEMPT)
        assert entry.targets == ()
