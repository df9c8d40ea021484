# SPDX-License-Identifier: Apache-2.0
"""The search for victims agrees with a direct implementation of the rules, in random trees.

The trees come from a seed instead of Hypothesis draws: they are large and full enough to need
victims, which would take a hundred draws each.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.plain_preempt import plain_victims
from engine.stage import FAIR, GPU, Quotas, Stage, preemptor
from kuota.engine.amounts import FlavorResource
from kuota.engine.candidates import PreemptionRequest
from kuota.engine.model import Quota
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, Policy

CPU = FlavorResource("default", "cpu")
POLICIES = (
    Policy(),
    FAIR,
    Policy(fair_sharing=(FINAL_SHARE,)),
    Policy(fair_sharing=(INITIAL_SHARE,)),
)
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Any", "Any", "LowerPriority", "Never", "")


def quota(chance: Random, most: int) -> Quota:
    nominal = chance.randint(0, most)
    borrowing = chance.choice((None, None, None, chance.randint(0, 4)))
    return Quota(nominal, borrowing, chance.choice((None, None, chance.randint(0, nominal))))


def quotas(chance: Random, most: int) -> Quotas:
    return {GPU: quota(chance, most), CPU: quota(chance, most)}


def crowded(chance: Random) -> Stage:
    """Six queues in a tree of four cohorts, filled until hardly anything fits."""
    stage = Stage(chance.choice(POLICIES))
    stage.cohort("root", quota=chance.randint(0, 4))
    for name, parent in (("left", "root"), ("right", "root"), ("deep", "left")):
        own = quotas(chance, 3) if chance.random() < 0.5 else {}
        stage.cohort(name, parent, own, weight=chance.choice((0.0, 1.0, 1.0, 2.0)))
    for name in "abcdef":
        stage.queue(
            name,
            quotas(chance, 6),
            chance.choice(("root", "left", "right", "deep")),
            within=chance.choice(WITHIN),
            reclaim=chance.choice(RECLAIM),
            borrow=chance.random() < 0.5,
            threshold=chance.choice((None, None, -1, 0, 1)),
            weight=chance.choice((0.0, 1.0, 1.0, 1.0, 2.0)),
        ).active = chance.random() > 0.05
    for number in range(60):
        fill(stage, f"w{number}", chance)
    return stage


def fill(stage: Stage, name: str, chance: Random) -> None:
    queue = chance.choice("abcdef")
    usage = {GPU: chance.randint(0, 3)} if chance.random() < 0.85 else {}
    if chance.random() < 0.4:
        usage[CPU] = chance.randint(0, 2)
    if stage.snapshot.queues[queue].node.fits(usage) or chance.random() < 0.02:
        stage.run(
            name,
            queue,
            usage,
            priority=chance.randint(-2, 2),
            created=chance.randint(0, 3),
            since=chance.randint(0, 3),
            evicted=chance.random() < 0.1,
        )


@given(st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_the_victims_are_those_of_a_plain_reading_of_the_rules(seed: int) -> None:
    chance = Random(seed)
    stage = crowded(chance)
    queue = stage.snapshot.queues[chance.choice("abcdef")]
    amounts = {GPU: chance.randint(1, 5)}
    if chance.random() < 0.4:
        amounts[CPU] = chance.randint(0, 3)
    needed = frozenset(c for c, amount in amounts.items() if amount > queue.node.room(c))
    priority, created = chance.randint(-2, 3), chance.randint(0, 3)
    before = stage.usage()
    found = stage.victims(queue.name, amounts, priority=priority, created=created, needed=needed)
    assert before == stage.usage()
    request = PreemptionRequest(
        preemptor(priority, created), queue, needed, amounts, stage.snapshot
    )
    assert list(plain_victims(request).items()) == list(found.items())
