# SPDX-License-Identifier: Apache-2.0
"""The cohort tree and one queue of it, from the objects of a running system."""

from __future__ import annotations

from typing import Any

from control.objects import cohort, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from dashboard.observed import observed_of, pending_rows
from kuota.api.base import Json, Key
from kuota.dashboard.models.tree import queue_meta, tree_model
from kuota.dashboard.shapes import NodeKind, QuotaCell, TreeNode
from kuota.engine.policy import Policy
from kuota.view.observed import ObservedState
from kuota.visibility.pending import PageRequest, in_cluster_queue


def _cell(node: TreeNode) -> QuotaCell:
    (found,) = node.quotas
    return found


def _texts(node: TreeNode) -> dict[str, str]:
    """The amounts of a node with one flavor and resource."""
    cell = _cell(node)
    return {
        name: getattr(cell, name).text
        for name in ("nominal", "total", "used", "borrowed", "lent", "available")
    }


def test_every_node_shows_quota_usage_and_what_is_lent_and_borrowed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(
            flavor(),
            cohort("org"),
            cohort("lab", parentName="org"),
            queue("a", 4, cohortName="lab"),
            queue("b", 4, cohortName="lab", stopPolicy="Hold"),
            queue("alone", 1),
            local_queue("main", "a"),
            job("big", "6"),
            job("waits", "5"),
        )
        await stage.rest()
        model = tree_model(observed_of(stage.api))
        org, alone = model.roots
        (lab,) = org.children
        a, b = lab.children
        kinds = [each.kind for each in (org, lab, a, alone)]
        assert [NodeKind.COHORT, NodeKind.COHORT, *[NodeKind.CLUSTER_QUEUE] * 2] == kinds
        assert ["", "org", "lab", ""] == [each.parent for each in (org, lab, a, alone)]
        amounts = {"nominal": "4", "total": "4", "used": "6", "borrowed": "2", "lent": "0"}
        assert amounts | {"available": "2"} == _texts(a)
        amounts = {"nominal": "4", "total": "4", "used": "0", "borrowed": "0", "lent": "2"}
        assert amounts | {"available": "2"} == _texts(b)
        amounts = {"nominal": "0", "total": "8", "used": "6", "borrowed": "0", "lent": "0"}
        assert amounts | {"available": "2"} == _texts(lab) == _texts(org)
        assert 6.0 == _cell(a).used.value
        assert [(1, 1), (1, 1), (1, 1), (0, 0)] == [
            (each.pending, each.admitted) for each in (org, lab, a, b)
        ]
        assert ("Hold", True) == (b.stop_policy, bool(b.inactive))
        assert ("None", "") == (a.stop_policy, a.inactive)
        (loan,) = model.loans
        assert ("a", "ClusterQueue", "b", "2") == (
            *(loan.borrower, loan.lender_kind, loan.lender),
            loan.amount.text,
        )
        assert [("team", "main", 1, 1)] == [
            (each.namespace, each.name, each.pending, each.admitted) for each in a.local_queues
        ]

    run_scene(scene)


def test_limits_are_shown_and_absent_ones_are_none() -> None:
    limited = queue("a", 4, cohortName="lab")
    resource = limited["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    resource |= {"borrowingLimit": "1", "lendingLimit": "3"}
    observed = ObservedState.of([flavor(), limited, queue("b", 2, cohortName="lab")])
    (lab,) = tree_model(observed).roots
    cells = [_cell(each) for each in lab.children]
    limits = [(each.borrowing_limit, each.lending_limit) for each in cells]
    assert [("1", "3"), (None, None)] == [
        tuple(each.text if each is not None else None for each in pair) for pair in limits
    ]
    assert not lab.exists


def test_cohorts_in_a_cycle_are_named_and_their_queues_stay_visible() -> None:
    observed = ObservedState.of(
        [
            cohort("a", parentName="b"),
            cohort("b", parentName="a"),
            queue("q", 3, cohortName="a"),
        ]
    )
    model = tree_model(observed)
    assert ["a", "b"] == model.cyclic
    assert [("q", "a", "3")] == [
        (each.name, each.parent, _cell(each).nominal.text) for each in model.roots
    ]
    meta = queue_meta(observed, "q")
    assert meta is not None
    assert [] == meta.path


def _pending(stage: Stage, settings: Policy | None = None, name: str = "cq") -> list[str]:
    return [each.key for each in pending_rows(observed_of(stage.api, settings), name)]


def _visible_order(stage: Stage, name: str = "cq") -> list[str]:
    """The order of Kueue's visibility API."""
    line = in_cluster_queue(stage.system.engine, name, PageRequest())
    assert line is not None
    return [str(each.workload.key) for each in line]


def test_pending_workloads_are_in_the_order_of_the_visibility_api() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(workload_class("high", 100), workload_class("low", -5))
        high = {"kueue.x-k8s.io/priority-class": "high"}
        low = {"kueue.x-k8s.io/priority-class": "low"}
        await stage.api.apply(job("runs"))
        await stage.rest()
        for number, labels in enumerate(({}, low, high, {}, high)):
            await stage.api.apply(job(f"j{number}", labels=labels))
            await stage.rest(1)
        await stage.rest()
        expected = _visible_order(stage)
        assert 5 == len(expected)
        assert expected == _pending(stage)

    run_scene(scene)


def test_evicted_and_boosted_workloads_keep_the_order_of_the_scheduler() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.edit_queue({"preemption": {"withinClusterQueue": "LowerPriority"}})
        await stage.api.apply(workload_class("high", 100))
        for name in ("a", "b", "c"):
            await stage.api.apply(job(name))
            await stage.rest(1)
        await stage.api.apply(job("d", "2", labels={"kueue.x-k8s.io/priority-class": "high"}))
        await stage.rest(30)
        assert {"team/" + stage.workload(each)["metadata"]["name"] for each in "abc"} == set(
            _pending(stage)
        )
        assert _visible_order(stage) == _pending(stage)

    run_scene(scene)


def test_admission_fair_sharing_orders_by_the_usage_of_local_queues() -> None:
    config: Json = {
        "admissionFairSharing": {"usageHalfLifeTime": "10m", "usageSamplingInterval": "1m"}
    }
    scope: Any = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}

    async def scene(stage: Stage) -> None:
        settings = stage.system.engine.policy
        await stage.api.apply(
            *(flavor(), queue("cq", 2, **scope), local_queue("used"), local_queue("idle")),
            job("runs", "2", queue="used"),
        )
        await stage.rest(200)
        await stage.api.apply(job("first", "2", queue="used"))
        await stage.rest(1)
        await stage.api.apply(job("second", "2", queue="idle"))
        await stage.rest(200)
        expected = _visible_order(stage)
        assert stage.workload("second")["metadata"]["name"] in expected[0]
        assert expected == _pending(stage, settings)

    run_scene(scene, config)


def test_workloads_of_a_stopped_local_queue_are_not_queued() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("a", "2"), local_queue("stopped", "cq", stopPolicy="Hold"))
        await stage.api.apply(job("b", "2", queue="stopped"))
        await stage.rest()
        assert _visible_order(stage) == _pending(stage)
        assert [stage.workload("a")["metadata"]["name"]] == [
            Key.parse(each).name for each in _pending(stage)
        ]

    run_scene(scene)


def test_an_unknown_queue_has_no_model() -> None:
    assert None is queue_meta(ObservedState(), "x")
