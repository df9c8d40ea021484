# SPDX-License-Identifier: Apache-2.0
"""The loop of admission check controllers, with controllers that fail."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from control.objects import check, condition, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.bridge.draft import PassResult
from kuota.control.checks.controller import CheckController, CheckedWorkload, Watched
from kuota.control.checks.registry import PLUGINS
from kuota.control.checks.states import READY, state_effects
from kuota.kube.resources import ADMISSION_CHECKS, CONFIG_MAPS

NAME = "example.com/permits"


def _named_workload(permit: Json) -> Iterable[Key]:
    yield Key(permit["metadata"]["namespace"], permit["data"]["workload"])


class Permits(CheckController):
    """Admits a Workload once there is a ConfigMap that names it, and fails until the third pass."""

    name = NAME
    watched = (Watched(resource=CONFIG_MAPS, workloads=_named_workload),)

    def __init__(self) -> None:
        self.passes = 0

    def reconcile(self, workload: CheckedWorkload) -> PassResult:
        self.passes += 1
        if self.passes < 3:
            raise RuntimeError("not today")
        if not workload.objects.for_workload(CONFIG_MAPS, workload.key):
            return PassResult()
        ready = [replace(each, state=READY) for each in workload.states]
        return PassResult(effects=state_effects(workload.stored, ready, workload.now))


@pytest.fixture
def permits(monkeypatch: pytest.MonkeyPatch) -> Permits:
    made = Permits()
    monkeypatch.setattr(PLUGINS, "_by_name", {NAME: made})
    return made


async def _furnish(stage: Stage) -> None:
    checks = {"admissionChecks": [{"name": "permit"}]}
    await stage.api.apply(check("permit", NAME), flavor(), local_queue())
    await stage.api.apply(queue("cq", 4, admissionChecksStrategy=checks))
    await stage.rest()


def _permit(name: str, data: Json) -> Json:
    meta = {"name": name, "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_a_watched_object_admits_the_workload_that_it_concerns(permits: Permits) -> None:
    async def scene(stage: Stage) -> None:
        await _furnish(stage)
        await stage.api.apply(job("a"), job("b"))
        await stage.rest()
        assert stage.suspended("a")
        await stage.api.apply(_permit("p", {"workload": stage.workload("a")["metadata"]["name"]}))
        await stage.rest()
        assert not stage.suspended("a")
        assert stage.suspended("b")

    run_scene(scene)


def test_objects_that_a_controller_cannot_read_do_not_stop_it(permits: Permits) -> None:
    async def scene(stage: Stage) -> None:
        await _furnish(stage)
        await stage.api.apply(_permit("odd", {}), job("a"))
        await stage.rest()
        await stage.api.apply(_permit("p", {"workload": stage.workload("a")["metadata"]["name"]}))
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_controller_without_checks_watches_nothing(permits: Permits) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(_permit("odd", {}), job("a"))
        await stage.rest()
        assert not stage.suspended("a")
        assert 0 == permits.passes

    run_scene(scene)


def test_the_condition_of_an_external_controller_is_not_changed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(check("external"))
        await stage.rest()
        found = condition(stage.get(ADMISSION_CHECKS, "external"), "Active")
        assert ("False", "NoController") == (found["status"], found["reason"])
        await stage.activate("external")
        await stage.rest()
        writes = stage.api.versions(ADMISSION_CHECKS, "external")
        await stage.restart()
        await stage.rest()
        found = condition(stage.get(ADMISSION_CHECKS, "external"), "Active")
        assert ("True", "Active") == (found["status"], found["reason"])
        assert writes == stage.api.versions(ADMISSION_CHECKS, "external")

    run_scene(scene)
