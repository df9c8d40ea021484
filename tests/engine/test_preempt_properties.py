# SPDX-License-Identifier: Apache-2.0
"""Invariants of the victims of any request in any tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.stage import FAIR, GPU, Stage, preemptor
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.candidates import (
    PreemptionRequest,
    max_victim_priority,
    may_preempt,
    merged_candidates,
    sorted_candidates,
)
from kuota.engine.model import Quota
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, Policy
from kuota.engine.preempt import PreemptionPossibility, Target
from kuota.engine.snapshot import Queue
from kuota.engine.tree import QuotaNode
from kuota.engine.usage import Usage

CPU = FlavorResource("default", "cpu")
EXAMPLES = 60
COHORTS = ("root", "left", "right")
POLICIES = (
    Policy(),
    FAIR,
    Policy(fair_sharing=(FINAL_SHARE,)),
    Policy(fair_sharing=(INITIAL_SHARE,)),
)

limits = st.none() | st.integers(0, 4)
quotas = st.builds(
    lambda nominal, borrowing, lending: Quota(
        nominal, borrowing, None if lending is None else min(lending, nominal)
    ),
    st.integers(0, 6),
    limits,
    limits,
)
columns = st.fixed_dictionaries({GPU: quotas, CPU: quotas})
usages = st.fixed_dictionaries({}, optional={GPU: st.integers(0, 4), CPU: st.integers(0, 4)})
requests = st.fixed_dictionaries({GPU: st.integers(1, 4)}, optional={CPU: st.integers(0, 4)})
priorities = st.integers(-2, 2)


@dataclass
class Story:
    """A world, a demand in it, and the answer."""

    stage: Stage
    queue: Queue
    amounts: Amounts
    priority: int
    created: float
    found: tuple[Target, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.found = self.answer()

    def answer(self) -> tuple[Target, ...]:
        return self.stage.targets(
            self.queue.name, self.amounts, priority=self.priority, created=self.created
        )

    @property
    def request(self) -> PreemptionRequest:
        workload = preemptor(self.priority, self.created)
        return PreemptionRequest(
            workload, self.queue, frozenset(self.amounts), self.amounts, self.stage.snapshot
        )


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    stage = Stage(draw(st.sampled_from(POLICIES)))
    stage.cohort("root", quota=draw(st.integers(0, 4)))
    for name in COHORTS[1:]:
        stage.cohort(name, "root", quota=draw(columns), weight=draw(st.sampled_from([0.0, 1.0])))
    for name in "abcd":
        stage.queue(
            name,
            draw(columns),
            draw(st.sampled_from(COHORTS)),
            within=draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
            reclaim=draw(st.sampled_from(["Any", "LowerPriority"])),
            borrow=draw(st.booleans()),
            threshold=draw(st.none() | priorities),
            weight=draw(st.sampled_from([0.0, 1.0, 2.0])),
        ).active = draw(st.integers(0, 9)) > 0
    for number in range(draw(st.integers(0, 9))):
        stage.run(
            f"w{number}",
            draw(st.sampled_from("abcd")),
            draw(usages),
            priority=draw(priorities),
            created=draw(st.integers(0, 3)),
            since=draw(st.integers(0, 3)),
            evicted=draw(st.integers(0, 5)) == 0,
        )
    return stage


@st.composite
def stories(draw: st.DrawFn) -> Story:
    stage = draw(stages())
    amounts = draw(requests)
    queue = stage.snapshot.queues[draw(st.sampled_from("abcd"))]
    return Story(stage, queue, amounts, draw(priorities), draw(st.integers(0, 3)))


@given(stories())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_search_leaves_no_trace_and_gives_the_same_answer_again(story: Story) -> None:
    usage = story.stage.usage()
    again = story.answer()
    assert usage == story.stage.usage()
    assert [(each.running.key, each.reason) for each in story.found] == [
        (each.running.key, each.reason) for each in again
    ]
    assert all(
        len(list(story.stage.snapshot.running(queue))) == len(queue.running)
        for queue in story.stage.snapshot.queues.values()
    )


@given(stories())
@settings(max_examples=EXAMPLES, deadline=None)
def test_once_the_victims_are_gone_the_request_fits(story: Story) -> None:
    snapshot = story.stage.snapshot
    with snapshot.trial():
        for each in story.found:
            snapshot.remove(each.running)
        assert not story.found or story.queue.node.fits(story.amounts)


@given(stories())
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_victim_is_one_the_rules_give_up_and_uses_what_is_needed(story: Story) -> None:
    rules, policy = story.queue.spec.preemption, story.stage.snapshot.policy
    for each in story.found:
        own = each.running.queue == story.queue.name
        rule = rules.within_cluster_queue if own else rules.reclaim_within_cohort
        assert may_preempt(rule, each.running.workload, story.request.workload, policy)
        assert each.running.uses(story.request.needed)
        queue = story.stage.snapshot.queues[each.running.queue]
        assert own or queue.active
        assert own or not queue.node.within_quota(story.request.needed)
    assert len(story.found) == len({each.running.key for each in story.found})


@given(stories())
@settings(max_examples=EXAMPLES, deadline=None)
def test_no_victim_but_the_last_could_be_spared(story: Story) -> None:
    """With borrowing allowed: an attempt without it has a stricter idea of what fits."""
    snapshot, reasons = story.stage.snapshot, {str(each.reason) for each in story.found}
    fair = snapshot.policy.fair_sharing is not None
    if not fair and reasons != {"InClusterQueue"}:
        return
    spared = []
    for one in story.found:
        with snapshot.trial():
            for each in story.found:
                if each is not one:
                    snapshot.remove(each.running)
            if story.queue.node.fits(story.amounts):
                spared.append(one)
    assert len(spared) <= 1


@given(stories())
@settings(max_examples=EXAMPLES, deadline=None)
def test_usage_at_every_node_is_the_sum_of_what_spills_from_below(story: Story) -> None:
    snapshot = story.stage.snapshot
    with snapshot.trial():
        for each in story.found:
            snapshot.remove(each.running)
        snapshot.add_usage(story.queue, Usage(quota=story.amounts))
        for cohort in story.stage.tree.cohorts.values():
            for column in (GPU, CPU):
                assert cohort.cell(column).used == spilled(cohort, column)


def spilled(cohort: QuotaNode, column: FlavorResource) -> int:
    below = (*cohort.cohorts.values(), *cohort.queues.values())
    return sum(child.cell(column).spilled for child in below)


@given(stories(), st.booleans())
@settings(max_examples=EXAMPLES, deadline=None)
def test_candidates_found_one_by_one_come_as_if_all_had_been_sorted(
    story: Story, leaving: bool
) -> None:
    request, queues = story.request, story.stage.snapshot.queues.values()
    rule = story.queue.spec.preemption.reclaim_within_cohort
    others = [queue for queue in queues if queue is not story.queue]
    max_priority = max_victim_priority(rule, request.workload.priority)
    found = list(
        merged_candidates(others, rule, request, leaving=leaving, max_priority=max_priority)
    )
    assert found == sorted_candidates(
        (
            each
            for queue in others
            for each in queue.running.values()
            if each.leaving == leaving
            and each.uses(request.needed)
            and may_preempt(rule, each.workload, request.workload, story.stage.snapshot.policy)
        ),
        request,
    )


@given(stages(), st.sampled_from("abcd"), st.integers(1, 6), priorities)
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_oracle_agrees_with_the_search_for_that_column_alone(
    stage: Stage, name: str, amount: int, priority: int
) -> None:
    found = stage.victims(name, amount, priority=priority)
    result = stage.oracle(name, amount, priority=priority)
    own = "InClusterQueue" in found.values()
    expected = PreemptionPossibility.PREEMPT if own else PreemptionPossibility.RECLAIM
    assert result.possibility == (expected if found else PreemptionPossibility.NO_CANDIDATES)
