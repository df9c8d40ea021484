# SPDX-License-Identifier: Apache-2.0
"""Explanations: why a workload waits, which node of the tree is the limit, what would help."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from build import cohort, flavor, job, key, local_queue, namespace, queue, running
from kuota.api.base import LabelSelector
from kuota.api.core import Taint
from kuota.engine.activity import InactiveReason
from kuota.engine.amounts import FlavorResource
from kuota.engine.bounds import binding, ceiling
from kuota.engine.decisions import Wait, WaitCause
from kuota.engine.engine import Engine
from kuota.engine.explanation import (
    Advice,
    Explanation,
    Limit,
    ProtectionReason,
    SchedulingPhase,
    Suggestion,
)
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import AdmissionCheck, CheckRule, Quota
from kuota.engine.reasons import RejectionCause, WaitReason
from kuota.engine.tree import QuotaNode, QuotaTree, available, charge

GPU = FlavorResource("default", "gpu")


def engine_of(*values: EngineObject) -> Engine:
    """An engine that has heard of these, and of a flavor and the default namespace."""
    engine = Engine()
    for value in (namespace(), flavor(), *values):
        engine.apply(ObjectStored(value=value), 0.0)
    return engine


def explained(engine: Engine, name: str = "j") -> Explanation:
    found = engine.explain(key(name), 0.0)
    assert found is not None
    return found


def advised(found: Explanation, advice: Advice) -> list[Suggestion]:
    return [each for each in found.suggestions if each.advice is advice]


def full(reclaim: str = "Never", within: str = "Never") -> Engine:
    """Two queues of four; the other one uses all eight with two jobs of four."""
    return engine_of(
        queue("a", gpu=4, cohort="eng", reclaim=reclaim, within=within),
        queue("b", gpu=4, cohort="eng"),
        local_queue("a"),
        running(job("b1", gpu=4), "b", 1.0),
        running(job("b2", gpu=4), "b", 2.0),
        job("j", queue="a", gpu=4),
    )


def test_an_unknown_workload_has_no_explanation() -> None:
    assert engine_of().explain(key("nobody"), 0.0) is None


def test_an_admitted_workload_has_nothing_in_its_way() -> None:
    engine = engine_of(queue("a", gpu=4), running(job("j", gpu=4), "a", 1.0))
    assert (SchedulingPhase.ADMITTED, ()) == (
        explained(engine).phase,
        explained(engine).suggestions,
    )


def test_a_reservation_waits_for_the_checks_of_its_queue() -> None:
    held = replace(running(job("j", gpu=4), "a", 1.0), admitted=False)
    checks = (CheckRule(name="budget"), CheckRule(name="other", flavors=frozenset({"spot"})))
    engine = engine_of(
        AdmissionCheck(name="budget", active=True), queue("a", gpu=4, checks=checks), held
    )
    found = explained(engine)
    assert (SchedulingPhase.RESERVED, ("budget",)) == (found.phase, found.checks)


def test_the_root_is_named_where_all_quota_is_used() -> None:
    found = explained(full())
    (lack,) = found.tried[0].lacks
    assert (RejectionCause.INSUFFICIENT, "Cohort", "eng", Limit.NOMINAL) == (
        lack.reason.cause,
        lack.kind,
        lack.where,
        lack.limit,
    )
    (wait,) = advised(found, Advice.WAIT_FOR_RELEASE)
    assert ("Cohort", "eng", 4) == (wait.kind, wait.where, wait.amount)


def test_reasons_of_the_flavor_search_name_the_place_too() -> None:
    engine = full()
    engine.cycle(0.0)
    decision = engine.last[key("j")]
    assert isinstance(decision, Wait)
    assert decision.assignment is not None
    assert "eng" == decision.assignment.pod_sets[0].reasons[0].where


def test_a_borrowing_limit_is_named_and_to_be_raised_by_what_is_missing() -> None:
    engine = engine_of(
        queue("a", gpu=Quota(2, borrowing_limit=2), cohort="eng"),
        queue("b", gpu=8, cohort="eng"),
        local_queue("a"),
        running(job("r", gpu=2), "a", 1.0),
        job("j", queue="a", gpu=4),
    )
    found = explained(engine)
    (lack,) = found.tried[0].lacks
    assert ("ClusterQueue", "a", Limit.BORROWING) == (lack.kind, lack.where, lack.limit)
    (limit,) = advised(found, Advice.RAISE_LIMIT)
    assert ("a", "borrowingLimit", 2) == (limit.where, limit.field, limit.amount)


def test_quota_that_is_kept_back_is_named_with_its_keeper() -> None:
    engine = engine_of(
        queue("a", gpu=2, cohort="eng"),
        queue("b", gpu=Quota(6, lending_limit=1), cohort="eng"),
        local_queue("a"),
        running(job("r", gpu=2), "a", 1.0),
        job("j", queue="a", gpu=3),
    )
    (lack,) = explained(engine).tried[0].lacks
    assert [("b", 5)] == [(each.name, each.amount) for each in lack.unlent]
    (limit,) = advised(explained(engine), Advice.RAISE_LIMIT)
    assert ("b", "lendingLimit", 2) == (limit.where, limit.field, limit.amount)


def test_more_than_can_ever_be_had_is_answered_with_the_most_there_is() -> None:
    engine = engine_of(queue("a", gpu=12), local_queue("a"), job("j", queue="a", gpu=16))
    found = explained(engine)
    assert (WaitCause.NO_FIT, WaitReason.EXCEEDS_MAX_QUOTA) == (found.why, found.reason)
    assert [12] == [each.amount for each in advised(found, Advice.ASK_LESS)]
    assert [] == advised(found, Advice.WAIT_FOR_RELEASE)


def test_a_policy_is_advised_only_if_it_would_find_victims() -> None:
    (advice,) = advised(explained(full()), Advice.SET_POLICY)
    assert ("a", "reclaimWithinCohort", "Any", "Never") == (
        advice.where,
        advice.field,
        advice.value,
        advice.detail,
    )
    assert (key("b2"),) == advice.workloads


def test_who_stays_and_why() -> None:
    shields = {each.workload.name: each.protection for each in explained(full()).protected}
    assert {"b1": ProtectionReason.RECLAIM_POLICY, "b2": ProtectionReason.RECLAIM_POLICY} == shields


def test_a_higher_priority_is_advised_where_policies_allow_it() -> None:
    engine = engine_of(
        queue("a", gpu=4, within="LowerPriority"),
        local_queue("a"),
        running(job("r", gpu=4, priority=7), "a", 1.0),
        job("j", queue="a", gpu=4, priority=3),
    )
    found = explained(engine)
    assert ProtectionReason.PRIORITY == found.protected[0].protection
    advice = advised(found, Advice.RAISE_PRIORITY) or advised(found, Advice.SET_POLICY)
    assert [(key("r"),)] == [each.workloads for each in advice]


def test_a_queue_within_its_quota_shields_its_workloads() -> None:
    engine = engine_of(
        queue("a", gpu=4, cohort="eng", reclaim="Any"),
        queue("b", gpu=4, cohort="eng"),
        local_queue("a"),
        running(job("b1", gpu=4), "b", 1.0),
        running(job("a1", gpu=2), "a", 2.0),
        job("j", queue="a", gpu=4),
    )
    shields = {each.workload.name: each.protection for each in explained(engine).protected}
    assert ProtectionReason.WITHIN_QUOTA == shields["b1"]
    assert ProtectionReason.WITHIN_POLICY == shields["a1"]


def test_less_can_be_taken_back_than_was_asked_for() -> None:
    engine = engine_of(
        queue("a", gpu=2, cohort="eng", reclaim="Any"),
        queue("b", gpu=2, cohort="eng"),
        local_queue("a"),
        running(job("b1", gpu=2), "b", 1.0),
        running(job("b2", gpu=2), "b", 2.0),
        job("j", queue="a", gpu=4),
    )
    (advice,) = advised(explained(engine), Advice.ASK_LESS)
    assert (2, (key("b2"),)) == (advice.amount, advice.workloads)


def test_a_taint_is_to_be_tolerated() -> None:
    taint = Taint(key="spot", value="true", effect="NoSchedule")
    engine = engine_of(
        flavor(taints=(taint,)), queue("a", gpu=4), local_queue("a"), job("j", queue="a", gpu=4)
    )
    (advice,) = advised(explained(engine), Advice.TOLERATE)
    assert "spot=true:NoSchedule" == advice.detail


def test_the_advice_for_an_unoffered_resource_is_to_add_it() -> None:
    engine = engine_of(queue("a", gpu=4), local_queue("a"), job("j", queue="a", gpu=1, tpu=1))
    assert ["tpu"] == [each.resource for each in advised(explained(engine), Advice.OFFER_RESOURCE)]


def test_a_missing_local_queue_is_to_be_created() -> None:
    found = explained(engine_of(job("j", queue="a", gpu=4)))
    assert SchedulingPhase.UNQUEUED == found.phase
    assert [("LocalQueue", "a")] == [(each.kind, each.where) for each in found.suggestions]


def test_a_missing_cluster_queue_is_to_be_created() -> None:
    found = explained(engine_of(local_queue("a"), job("j", queue="a", gpu=4)))
    assert (InactiveReason.QUEUE_MISSING,) == tuple(each.reason for each in found.obstacles)
    assert [("ClusterQueue", "a")] == [(each.kind, each.where) for each in found.suggestions]


def test_a_stopped_queue_is_to_be_resumed() -> None:
    engine = engine_of(
        queue("a", gpu=4, stop_policy="Hold"), local_queue("a"), job("j", queue="a", gpu=4)
    )
    found = explained(engine)
    assert (WaitCause.QUEUE_INACTIVE, [Advice.RESUME]) == (
        found.why,
        [each.advice for each in found.suggestions],
    )


def test_a_namespace_that_is_not_selected_is_named() -> None:
    other = LabelSelector(match_labels={"team": "x"})
    engine = engine_of(
        queue("a", gpu=4, namespace_selector=other), local_queue("a"), job("j", queue="a", gpu=1)
    )
    found = explained(engine)
    assert (WaitCause.NAMESPACE_MISMATCH, Advice.ADMIT_NAMESPACE) == (
        found.why,
        found.suggestions[0].advice,
    )


def test_behind_the_head_of_a_strict_queue_there_is_only_waiting() -> None:
    engine = engine_of(
        queue("a", gpu=4, strategy="StrictFIFO"),
        local_queue("a"),
        running(job("r", gpu=2), "a", 1.0),
        job("first", queue="a", gpu=4, created=1.0),
        job("j", queue="a", gpu=1, created=2.0),
    )
    found = explained(engine)
    assert (2, 2, (key("first"),)) == (found.position, found.waiting, found.rivals)


def test_explaining_leaves_no_trace() -> None:
    engine = full(reclaim="LowerPriority", within="LowerPriority")
    node = engine.state.queues["b"].node
    before = {c: cell.used for c, cell in node.cells.items()}
    explained(engine)
    assert before == {c: cell.used for c, cell in node.cells.items()}
    assert explained(engine) == explained(engine)


@st.composite
def trees(draw: st.DrawFn) -> QuotaNode:
    """A queue three cohorts deep, with any limits and any usage."""
    tree = QuotaTree()
    names = ["root", "mid", "low"]
    quotas = st.builds(
        Quota,
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
    )
    for parent, name in zip(["", *names], names, strict=False):
        spec = cohort(name, {"gpu": draw(quotas)} if parent else {"gpu": draw(st.integers(0, 9))})
        tree.put_cohort(name, parent, spec.groups, 1.0)
    for name in names:
        spare = queue(f"beside-{name}", gpu=draw(quotas))
        node = tree.put_queue(spare.name, name, spare.groups, 1.0)
        charge(node.cell(GPU), draw(st.integers(0, 12)))
    own = queue("own", gpu=draw(quotas))
    node = tree.put_queue("own", "low", own.groups, 1.0)
    charge(node.cell(GPU), draw(st.integers(0, 12)))
    return node


@given(trees())
def test_more_room_at_the_binding_node_is_more_room(node: QuotaNode) -> None:
    """And no other borrowing limit, and no quota of the root, would help by itself."""
    bound = binding(node, GPU)
    room = available(node.cell(GPU))
    for each in (node, *node.ancestors()):
        cell = each.cell(GPU)
        if each.parent is None:
            cell.subtree += 1
            more = available(node.cell(GPU)) > room
            cell.subtree -= 1
        elif cell.borrowing_limit is not None:
            cell.borrowing_limit += 1
            more = available(node.cell(GPU)) > room
            cell.borrowing_limit -= 1
        else:
            continue
        if more:
            assert bound is each


@given(trees())
def test_a_higher_limit_helps_for_good_only_at_the_ceiling(node: QuotaNode) -> None:
    bound = ceiling(node, GPU)
    most = potential(node)
    for each in (node, *node.ancestors()):
        cell = each.cell(GPU)
        if cell.borrowing_limit is not None and each.parent is not None:
            cell.borrowing_limit += 1
            if potential(node) > most:
                assert bound is each
            cell.borrowing_limit -= 1


def potential(node: QuotaNode) -> int:
    """What the node could use if nobody used anything, found anew."""
    for each in reversed((node, *node.ancestors())):
        each.cell(GPU).compute_potential()
    return node.cell(GPU).potential
