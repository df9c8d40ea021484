# SPDX-License-Identifier: Apache-2.0
"""The models of the dashboard follow the objects of either server, and actions change them."""

from __future__ import annotations

from cluster.stage import Stage, StageRunner
from control.objects import cohort, flavor, job, local_queue, queue, workload_class
from dashboard.observed import pending_rows
from kuota.api.base import Json
from kuota.dashboard.actions import Actions
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.models.tree import queue_meta, tree_model
from kuota.dashboard.models.workload import workload_model
from kuota.dashboard.shapes import (
    ActionName,
    ActionRequest,
    TimelineStep,
    TreeNode,
    WorkloadModel,
    WorkloadRow,
)
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CORE_EVENTS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.observed import ObservedState
from kuota.view.workload_state import LiveState
from kuota.visibility.pending import PageRequest, in_cluster_queue

HIGH = {"kueue.x-k8s.io/priority-class": "high"}


class Watched:
    """The dashboard's view of a stage, from watches."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.observed = ObservedState()
        for each in (PODS, NODES, WORKLOAD_PRIORITY_CLASSES):
            stage.follow(each)
        for each in (
            *(RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS),
            *(PODS, NODES, WORKLOAD_PRIORITY_CLASSES),
        ):
            self._follow(each)

    def _follow(self, resource: Resource) -> None:
        def changed(old: Json | None, new: Json | None) -> None:
            if new is not None:
                self.observed.put(new)
            elif old is not None:
                self.observed.drop(resource.kind, key_of(old))

        self.stage.observe(resource, changed)

    def row(self, name: str) -> WorkloadRow:
        return workload_row(self.stage.workload(name), self.observed)

    def state(self, name: str) -> LiveState:
        return self.row(name).state

    def model(self, name: str) -> WorkloadModel:
        events = self.stage.all(CORE_EVENTS)
        return workload_model(self.stage.workload(name), self.observed, events=events)

    def steps(self, name: str) -> set[TimelineStep]:
        return {each.step for each in self.model(name).timeline}

    def queue(self, name: str) -> TreeNode:
        found = queue_meta(self.observed, self.stage.names.own(name))
        assert found is not None
        return found.queue

    def pending(self, name: str) -> list[str]:
        return [each.key for each in pending_rows(self.observed, self.stage.names.own(name))]

    def node(self, name: str) -> TreeNode:
        """A cohort of the story."""
        named = self.stage.names.own(name)
        (found,) = [each for each in tree_model(self.observed).roots if each.name == named]
        return found

    def amounts(self, node: TreeNode) -> tuple[str, ...]:
        (cell,) = node.quotas
        return tuple(each.text for each in (cell.total, cell.used, cell.borrowed, cell.lent))


def test_quota_order_and_timelines_are_those_of_the_server(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        watched = Watched(stage)
        policy = {"withinClusterQueue": "LowerPriority"}
        await stage.apply(
            *(flavor(), cohort("lab"), workload_class("high", 100)),
            queue("a", 2, cohortName="lab", preemption=policy),
            queue("b", 2, cohortName="lab"),
            local_queue("main", "a"),
            job("low", "3"),
        )
        await stage.shows(LiveState.ADMITTED, watched.state, "low")
        lab = watched.node("lab")
        assert [("4", "3", "0", "0"), ("2", "3", "1", "0"), ("2", "0", "0", "1")] == [
            watched.amounts(each) for each in (lab, *lab.children)
        ]
        await stage.apply(job("first", "3"), job("second", "3"))
        await stage.apply(job("urgent", "2", labels=HIGH))
        await stage.shows(LiveState.PREEMPTED, watched.state, "low")
        await stage.shows(LiveState.ADMITTED, watched.state, "urgent")
        await stage.shows(3, lambda: len(watched.pending("a")))
        line = in_cluster_queue(stage.systems[-1].engine, stage.names.own("a"), PageRequest())
        assert line is not None
        assert [str(each.workload.key) for each in line] == watched.pending("a")
        by = watched.row("low").preempted_by
        assert by is not None
        assert stage.workload("urgent")["metadata"]["name"] == by.name
        await stage.shows(1, lambda: len(watched.model("urgent").pods))
        await stage.holds(
            lambda: {TimelineStep.SUBMITTED, TimelineStep.ADMITTED} <= watched.steps("urgent")
        )
        assert {TimelineStep.SUBMITTED, TimelineStep.PREEMPTED} <= watched.steps("low")

    on_stage(scene)


def test_actions_change_workloads_queues_and_priorities(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        watched, actions = Watched(stage), Actions(stage.client)

        async def act(action: ActionName, kind: str, name: str, **more: str) -> str:
            space = stage.names.namespace if kind != "ClusterQueue" else ""
            request = ActionRequest(
                action=action,
                kind=kind,
                name=name,
                namespace=space,
                priority_class=more.get("priority_class"),
            )
            return (await actions.carry_out(request, "ann", stage.client)).message

        await stage.apply(workload_class("high", 100))
        await stage.furnish(2)
        await stage.apply(job("a", "2"))
        await stage.shows(LiveState.ADMITTED, watched.state, "a")
        await stage.apply(job("b", "2"))
        await stage.shows(LiveState.PENDING, watched.state, "b")
        named = {each: stage.workload(each)["metadata"]["name"] for each in ("a", "b")}
        high = stage.names.own("high")
        await act(ActionName.SET_PRIORITY, "Workload", named["b"], priority_class=high)
        await stage.shows(100, lambda: watched.row("b").priority)
        assert "held" in await act(ActionName.HOLD, "Workload", named["a"])
        await stage.shows((True, LiveState.DEACTIVATED), _held, watched, "a")
        await stage.shows(LiveState.ADMITTED, watched.state, "b")
        await stage.holds(lambda: TimelineStep.HELD in watched.steps("a"))
        (held,) = [each for each in watched.model("a").timeline if each.step is TimelineStep.HELD]
        assert "ann" == held.user
        await act(ActionName.RELEASE, "Workload", named["a"])
        await stage.shows((False, LiveState.PENDING), _held, watched, "a")
        await act(ActionName.STOP_QUEUE, "ClusterQueue", stage.names.own("cq"))
        await stage.shows("Hold", lambda: watched.queue("cq").stop_policy)
        await stage.holds(lambda: watched.queue("cq").inactive)

    on_stage(scene)


def _held(watched: Watched, name: str) -> tuple[bool, LiveState]:
    row = watched.row(name)
    return row.held, row.state
