# SPDX-License-Identifier: Apache-2.0
"""Invariants for any facts in any order: determinism, and no leftover state."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.properties.definition import Numbers, kept
from engine.properties.lives import Do, Life, lives
from engine.properties.witness import CheckedSimulation
from engine.strategies import LOOPED, SOUND, WILD, calm
from kuota.api.base import Key
from kuota.engine.cycle import decide
from kuota.engine.decisions import Decision
from kuota.engine.engine import Engine
from kuota.engine.entry import Head
from kuota.engine.facts import EngineObject, Fact, ObjectDeleted, ObjectStored
from kuota.engine.model import LocalQueue, PodUsage, Workload


@pytest.mark.slow
@given(lives(WILD, turns=3, events=8) | lives(LOOPED, turns=3, events=8))
@calm(120)
def test_a_cycle_never_raises_and_ends_for_any_facts(life: Life) -> None:
    """Loops of cohorts, missing flavors, absurd amounts, shrinking quotas, deletes in any order.

    Nor does it raise to ask why anybody is where it is.
    """
    witness = CheckedSimulation(life.policy, life.cluster)
    for step in life.steps:
        witness.do(step)
    witness.engine.sample(witness.world.now)
    for key in witness.engine.state.workloads:
        assert witness.engine.explain(key, witness.world.now) is not None


@pytest.mark.slow
@given(lives(WILD))
@calm(50)
def test_every_workload_is_accounted_for_after_any_facts(life: Life) -> None:
    witness = CheckedSimulation(life.policy, life.cluster)
    for step in life.steps:
        witness.do(step)
        witness.check_nobody_is_lost()


@given(lives(SOUND))
@calm(40)
def test_the_same_facts_give_the_same_decisions(life: Life) -> None:
    assert _decisions(life) == _decisions(life)


def _decisions(life: Life) -> list[tuple[Decision, ...]]:
    engine, found = Engine(life.policy), []
    for fact in (ObjectStored(value=value) for value in life.cluster):
        engine.apply(fact, 0.0)
    for now, step in enumerate(life.steps):
        if isinstance(step, Do):
            found.append(engine.cycle(float(now)).decisions)
        else:
            engine.apply(step, float(now))
    return found


@given(lives(LOOPED, turns=2, events=10))
@calm(60)
def test_for_quota_only_the_latest_fact_counts(life: Life) -> None:
    told_all, told_last = Engine(), Engine()
    for fact in life.facts:
        told_all.apply(fact, 0.0)
    for fact in _last(life.facts):
        told_last.apply(fact, 0.0)
    assert _numbers(told_all) == _numbers(told_last)


@given(lives(LOOPED, turns=2, events=10), st.integers(0, 2**16))
@calm(60)
def test_for_quota_the_order_of_telling_does_not_count(life: Life, seed: int) -> None:
    facts = _last(life.facts)
    shuffled = Random(seed).sample(facts, len(facts))
    one, other = Engine(), Engine()
    for fact in facts:
        one.apply(fact, 0.0)
    for fact in shuffled:
        other.apply(fact, 0.0)
    assert _numbers(one) == _numbers(other)


def _last(facts: list[Fact]) -> list[Fact]:
    """The objects as they are in the end, each told once."""
    left: dict[tuple[type, Key], Fact] = {}
    for fact in facts:
        if isinstance(fact, ObjectStored):
            value = fact.value
            left[type(value), _key(value)] = fact
        elif isinstance(fact, ObjectDeleted):
            left.pop((fact.kind, fact.key), None)
    return list(left.values())


def _key(value: EngineObject) -> Key:
    return value.key if isinstance(value, Workload | LocalQueue | PodUsage) else Key("", value.name)


def _numbers(engine: Engine) -> Numbers:
    tree = engine.state.tree
    columns = {c for node in tree.queues.values() for c in node.cells}
    columns |= {c for node in tree.cohorts.values() for c in node.cells}
    return kept(tree, columns)


@given(lives(SOUND, turns=2))
@calm(60)
def test_a_trial_leaves_no_trace(life: Life) -> None:
    witness = CheckedSimulation(life.policy, life.cluster)
    for step in life.steps[:-1]:
        witness.do(step)
    engine, now = witness.engine, witness.world.now
    heads = [
        Head(workload=workload, cluster_queue=name)
        for name in witness.queues
        for workload in engine.queues[name].ordered()[:1]
    ]
    snapshot = engine.snapshot(now)
    before = _numbers(engine), {n: list(q.running) for n, q in engine.state.queues.items()}
    decide(heads, snapshot, engine.state.namespaces)
    with snapshot.trial():
        for queue in engine.state.queues.values():
            for running in list(snapshot.running(queue)):
                snapshot.remove(running)
                with snapshot.trial():
                    snapshot.restore(running)
                    snapshot.add_usage(queue, running.usage)
    assert before == (
        _numbers(engine),
        {n: list(q.running) for n, q in engine.state.queues.items()},
    )
