# SPDX-License-Identifier: Apache-2.0
"""A change reconciles only the queues that it affects."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import NAMESPACE, check, cohort, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    RESOURCE_FLAVORS,
)

QUEUES = 12
FAIR: Json = {"fairSharing": {}}


class Passes:
    """Counts passes over queues, cohorts, flavors and checks, by name."""

    def __init__(self, stage: Stage) -> None:
        self._found: list[str] = []
        stage.system.instrument = self._instrument

    def _instrument(self, controller: str, reconcile: Any) -> Any:
        async def counted(name: Any) -> float | None:
            resource, key = name
            self._found.append(f"{resource.kind} {key.name}")
            result: float | None = await reconcile(name)
            return result

        return counted if controller == "queues" else reconcile

    def take(self) -> set[str]:
        """The objects of all passes since the last time."""
        found, self._found = set(self._found), []
        return found


async def _setting(stage: Stage) -> Passes:
    """Two cohorts with half of the queues each, a LocalQueue to each queue, and a job that runs."""
    passes = Passes(stage)
    await stage.api.apply(flavor(), flavor("spot"), check("ok"), cohort("even"), cohort("odd"))
    for number in range(QUEUES):
        name = f"cq{number}"
        named = "odd" if number % 2 else "even"
        await stage.api.apply(queue(name, 4, cohortName=named), local_queue(f"lq{number}", name))
    await stage.api.apply(job("a", "4", queue="lq3"))
    await stage.rest(30)
    assert stage.says("a", "Admitted") == "True/Admitted"
    passes.take()
    return passes


OWN = {"ClusterQueue cq3", "LocalQueue lq3"}


@pytest.mark.parametrize(("config", "above"), [(None, set()), (FAIR, {"Cohort odd"})])
def test_a_finished_and_deleted_job_concerns_its_own_queues(
    config: Json | None, above: set[str]
) -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        await stage.kubelet.succeed("a")
        await stage.rest(30)
        assert OWN | above == passes.take()
        await stage.api.delete(JOBS, Key(NAMESPACE, "a"))
        await stage.rest(30)
        assert stage.workloads("a") == []
        assert passes.take() <= OWN | above

    run_scene(scene, config)


@pytest.mark.parametrize(("config", "above"), [(None, set()), (FAIR, {"Cohort odd"})])
def test_a_deleted_workload_that_runs_concerns_its_own_queues(
    config: Json | None, above: set[str]
) -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        await stage.api.delete(JOBS, Key(NAMESPACE, "a"))
        await stage.rest(30)
        assert stage.workloads("a") == []
        assert OWN | above == passes.take()
        assert 0 == stage.get(CLUSTER_QUEUES, "cq3")["status"]["reservingWorkloads"]

    run_scene(scene, config)


def test_with_fair_sharing_quota_concerns_the_queues_of_its_cohort_tree() -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        await stage.edit(COHORTS, "odd", {"spec": {"fairSharing": {"weight": "2"}}})
        await stage.rest(30)
        odd = {f"ClusterQueue cq{number}" for number in range(1, QUEUES, 2)}
        assert {"Cohort odd", *odd} == passes.take()

    run_scene(scene, FAIR)


def test_without_fair_sharing_a_cohort_concerns_only_itself() -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        await stage.edit(COHORTS, "odd", {"spec": {"fairSharing": {"weight": "2"}}})
        await stage.rest(30)
        assert {"Cohort odd"} == passes.take()

    run_scene(scene)


def test_a_queue_concerns_itself_its_local_queues_and_what_it_names() -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        moved = queue("cq3", flavors={"default": 4, "spot": 1})["spec"]["resourceGroups"]
        await stage.edit(CLUSTER_QUEUES, "cq3", {"spec": {"resourceGroups": moved}})
        await stage.rest(30)
        assert OWN == passes.take()
        await stage.api.delete(RESOURCE_FLAVORS, Key("", "spot"))
        await stage.rest(30)
        assert OWN | {"ResourceFlavor spot"} >= passes.take() >= {"ResourceFlavor spot"}
        moved = queue("cq3", 4)["spec"]["resourceGroups"]
        await stage.edit(CLUSTER_QUEUES, "cq3", {"spec": {"resourceGroups": moved}})
        await stage.rest(30)
        assert OWN | {"ResourceFlavor spot"} == passes.take()
        assert stage.api.find(RESOURCE_FLAVORS, "spot") is None

    run_scene(scene)


def test_a_check_concerns_the_queues_that_ask_for_it() -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        rules = {"admissionChecks": [{"name": "ok"}]}
        await stage.edit(CLUSTER_QUEUES, "cq5", {"spec": {"admissionChecksStrategy": rules}})
        await stage.rest(30)
        passes.take()
        await stage.activate("ok")
        await stage.rest(30)
        assert {"AdmissionCheck ok", "ClusterQueue cq5", "LocalQueue lq5"} == passes.take()
        assert stage.api.find(ADMISSION_CHECKS, "ok") is not None

    run_scene(scene)


def test_a_workload_that_moves_is_counted_out_where_it_was() -> None:
    async def scene(stage: Stage) -> None:
        passes = await _setting(stage)
        await stage.api.apply(job("b", "99", queue="lq3"))
        await stage.rest(30)
        passes.take()
        await stage.edit_workload("b", {"spec": {"queueName": "lq4"}})
        await stage.rest(30)
        assert {"LocalQueue lq3", "LocalQueue lq4"} <= passes.take()

    run_scene(scene)
