# SPDX-License-Identifier: Apache-2.0
"""Skipping the heads of quiescent trees changes no decision and no state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.properties.lives import Do, Life, lives
from engine.strategies import LOOPED, SOUND, WILD, calm
from kuota.api.base import Key
from kuota.engine.buckets import Pending
from kuota.engine.decisions import Decision, Preempt, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import Fact, ObjectStored
from kuota.engine.model import Instant, Workload
from kuota.engine.pending import PendingState
from kuota.engine.policy import Policy
from kuota.sim.simulation import Simulation

SEVERAL = 4
"""Cycles in place of coming to rest, which the two engines may notice at different times."""


class UnfilteredEngine(Engine):
    """An engine that takes in every fact, even one that says nothing new.

    `taken` are the heads of its latest cycle, by ClusterQueue. Second passes are not among them.
    """

    taken: dict[str, tuple[Workload, bool]]

    def _is_known_pending(self, workload: Workload) -> bool:
        return False

    def _heads(self, now: Instant) -> list[Pending]:
        found = super()._heads(now)
        self.taken = {
            each.cluster_queue: (each.workload, each.preemptor)
            for each in found
            if not each.second_pass
        }
        return found


class Pair:
    """Two worlds that are told the same. In the eager one every head is taken in every cycle."""

    def __init__(self, policy: Policy, *, carried_out: bool) -> None:
        self.quiet, self.eager = Simulation(policy), Simulation(policy)
        self.eager.engine = self._attentive = UnfilteredEngine(policy)
        self.left_out = 0
        self._carried_out = carried_out

    def apply(self, fact: Fact) -> None:
        for world in (self.quiet, self.eager):
            world.engine.apply(fact, world.now)

    def wait(self, seconds: float) -> None:
        for world in (self.quiet, self.eager):
            world.advance(world.now + seconds)

    def cycle(self) -> None:
        self.eager.engine.queues.wake(self.eager.engine.queues.quiescent)
        self._attentive.taken = {}
        some = self._decided(self.quiet)
        left_out = dict(self.quiet.engine.queues.quiescent)
        self._compare(some, self._decided(self.eager))
        for name, head in left_out.items():
            if head.workload.key not in {each.workload.key for each in some}:
                assert (head.workload, head.preemptor) == self._attentive.taken[name]

    def _decided(self, world: Simulation) -> tuple[Decision, ...]:
        if self._carried_out:
            return world.cycle().decisions
        return world.engine.cycle(world.now).decisions

    def _compare(self, some: tuple[Decision, ...], all_: tuple[Decision, ...]) -> None:
        named = {each.workload.key for each in some}
        left_out = [each for each in all_ if each.workload.key not in named]
        self.left_out += len(left_out)
        assert [timeless(each) for each in all_ if each.workload.key in named] == [
            timeless(each) for each in some
        ]
        last = self.quiet.engine.last
        for each in left_out:
            assert fruitless(each)
            if not self._carried_out:
                assert timeless(each) == timeless(last[each.workload.key])
        assert last_decisions(self.eager.engine) == last_decisions(self.quiet.engine)
        assert places(self.eager.engine) == places(self.quiet.engine)
        assert self.eager.engine.cycles == self.quiet.engine.cycles


def fruitless(decision: Decision) -> bool:
    if isinstance(decision, Preempt):
        return all(victim.leaving for victim in decision.victims)
    return isinstance(decision, Wait)


def timeless(decision: Decision) -> Decision:
    """Return the decision without the cycle in which it was made.

    The generation of the quota matters only to a flavor scan that will be continued.
    """
    assignment = getattr(decision, "assignment", None)
    if assignment is None:
        return decision
    progress = replace(assignment.progress, cycle=0)
    if not progress.pending:
        progress = replace(progress, generation=0)
    return replace(decision, assignment=replace(assignment, progress=progress))


def last_decisions(engine: Engine) -> dict[Key, Decision]:
    return {name: timeless(decision) for name, decision in engine.last.items()}


def places(engine: Engine) -> dict[Key, tuple[str, PendingState | None]]:
    found = {}
    for workload in engine.state.workloads:
        queue = engine.queues.queue_of(workload)
        if queue is not None:
            found[workload] = queue.name, queue.state(workload)
    return found


def lived(life: Life, *, carried_out: bool) -> Pair:
    pair = Pair(life.policy, carried_out=carried_out)
    for value in life.cluster:
        pair.apply(ObjectStored(value=value))
    for step in life.steps:
        if step is Do.WAIT:
            pair.wait(10.0)
        elif isinstance(step, Do):
            for _ in range(SEVERAL if step is Do.SETTLE else 1):
                pair.cycle()
        else:
            pair.apply(step)
            pair.cycle()
    return pair


MANY_LIVES = lives(SOUND, events=6) | lives(LOOPED) | lives(WILD)


@given(MANY_LIVES)
@calm(30)
def test_the_same_is_decided_while_decisions_are_on_their_way(life: Life) -> None:
    lived(life, carried_out=False)


@given(MANY_LIVES)
@calm(30)
def test_the_same_is_decided_when_decisions_are_carried_out_at_once(life: Life) -> None:
    lived(life, carried_out=True)


@pytest.mark.slow
@given(MANY_LIVES, st.booleans())
@calm(300)
def test_the_same_is_decided_in_many_more_lives(life: Life, carried_out: bool) -> None:
    lived(life, carried_out=carried_out)
