# SPDX-License-Identifier: Apache-2.0
"""Changes of namespaces, limits and classes process only the affected Jobs and Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import NAMESPACE, check, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.api.kueue import MULTIKUEUE
from kuota.kube.resources import ADMISSION_CHECKS, JOBS, NAMESPACES, WORKLOAD_PRIORITY_CLASSES

HIGH = {"kueue.x-k8s.io/priority-class": "high"}


def _forbid_scans(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan() -> Any:
        raise AssertionError("looks at every object")

    for informer in (stage.system.cache.workloads, *stage.system.cache.jobs.values()):
        monkeypatch.setattr(informer, "values", scan)
        monkeypatch.setattr(informer, "keys", scan)


def _limit_range(cpu: str) -> Json:
    limits = [{"type": "Container", "max": {"cpu": cpu}}]
    meta = {"name": "limits", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}}


def test_what_concerns_one_namespace_or_class_looks_at_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(stage: Stage) -> None:
        selector = {"matchLabels": {"team": "x"}}
        await stage.api.apply(flavor(), queue("cq", 4, namespaceSelector=selector), local_queue())
        await stage.api.apply(workload_class("high", 100))
        await stage.api.apply(job("plain", "2"), job("high", "1", labels=HIGH))
        await stage.rest()
        _forbid_scans(stage, monkeypatch)
        assert stage.says("plain", "QuotaReserved") == "False/Misconfigured"
        await stage.api.apply(_limit_range("1"))
        await stage.edit(NAMESPACES, "team", {"metadata": {"labels": {"team": "x"}}})
        await stage.rest()
        assert stage.says("plain", "QuotaReserved") == "False/Misconfigured"
        assert stage.says("high", "QuotaReserved") == "True/QuotaReserved"
        await stage.edit(WORKLOAD_PRIORITY_CLASSES, "high", {"value": 50})
        await stage.rest()
        assert stage.workload("high")["spec"]["priority"] == 50
        await stage.api.apply(_limit_range("4"))
        await stage.rest()
        assert stage.says("plain", "QuotaReserved") == "True/QuotaReserved"

    run_scene(scene)


def test_a_new_check_looks_only_at_workloads_that_list_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "1"))
        await stage.rest()
        _forbid_scans(stage, monkeypatch)
        fleet = {"apiVersion": check("c")["apiVersion"], "kind": "MultiKueueConfig"}
        fleet |= {"metadata": {"name": "fleet"}, "spec": {"clusters": ["near"]}}
        await stage.api.apply(check("provisioning"), check("elsewhere", MULTIKUEUE), fleet)
        await stage.rest()
        await stage.api.delete(ADMISSION_CHECKS, Key("", "elsewhere"))
        await stage.rest()
        assert not stage.running.done()

    run_scene(scene)


def test_a_start_with_many_kinds_does_not_look_at_all_workloads_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("kept", "1"), job("gone", "1"))
        await stage.rest()
        await stage.stop()
        await stage.api.delete(JOBS, Key(NAMESPACE, "gone"))
        stage.start()
        _forbid_scans(stage, monkeypatch)
        await stage.rest()
        assert [] == stage.workloads("gone"), "its owner does not exist"
        assert [] != stage.workloads("kept")

    run_scene(scene, {"integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]}})
