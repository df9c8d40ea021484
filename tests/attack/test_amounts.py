# SPDX-License-Identifier: Apache-2.0
"""What a pod requests cannot be hidden from quota: every field that contains amounts counts.

The stories use the machine of `test_quota`: a team has a quota of one GPU, and the machine has
four.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attack.enforced import TEAM, Enforced, holder
from attack.test_quota import holding, play, refused
from attack.test_volumes import CRON_JOBS, JOBS, PODS, faulty_fields
from kuota.api.base import Json, Key
from kuota.kube import resources
from kuota.kube.requests import PatchType
from kuota.runner.devices import DeviceAllocations
from server.served import Local, job, namespace, pod

GPU = "nvidia.com/gpu"


def container(name: str = "main", **amounts: Json) -> Json:
    return {"name": name, "image": "x", "command": ["true"], "resources": amounts}


def gpus(count: int | str, name: str = "main") -> Json:
    return container(name, requests={GPU: count}, limits={GPU: count})


HIDDEN: dict[str, Json] = {
    "an init container": {"initContainers": [gpus(3, "init")], "containers": [gpus(1)]},
    "an init container and no container": {
        "initContainers": [gpus(2, "init")],
        "containers": [container()],
    },
    "a sidecar": {
        "initContainers": [gpus(1, "sidecar") | {"restartPolicy": "Always"}],
        "containers": [gpus(1)],
    },
    "an init container after a sidecar": {
        "initContainers": [
            gpus(1, "sidecar") | {"restartPolicy": "Always"},
            gpus(1, "init"),
        ],
        "containers": [container()],
    },
    "a second container": {"containers": [gpus(1), gpus(1, "second")]},
    "limits without requests": {"containers": [container(limits={GPU: 2})]},
    "limits of an init container": {
        "initContainers": [container("init", limits={GPU: 2})],
        "containers": [gpus(1)],
    },
    "overhead": {"containers": [gpus(1)], "overhead": {GPU: 1}},
}


def test_amounts_above_the_quota_are_charged_wherever_they_are(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        names = [f"attempt-{at}" for at in range(len(HIDDEN))]
        for name, spec in zip(names, HIDDEN.values(), strict=True):
            made = holder(name)
            made["spec"]["template"]["spec"] |= copy.deepcopy(spec)
            await machine.ann.create(resources.JOBS, made)
        await machine.settle()
        started = [how for name, how in zip(names, HIDDEN, strict=True) if machine.pods(name)]
        assert ([], 0) == (started, machine.held())

    play(tmp_path, story)


REDUCED: dict[str, tuple[str, Json]] = {
    "negative overhead": (
        f"overhead[{GPU}]",
        {"containers": [gpus(3)], "overhead": {GPU: "-4"}},
    ),
    "negative overhead of the processor": (
        "overhead[cpu]",
        {"containers": [container(requests={"cpu": 4})], "overhead": {"cpu": -4}},
    ),
    "fractional overhead": (
        f"overhead[{GPU}]",
        {"containers": [gpus(1)], "overhead": {GPU: "500m"}},
    ),
    "negative request": (
        f"containers[0].resources.requests[{GPU}]",
        {"containers": [gpus(-1), gpus(2, "second")]},
    ),
    "negative request of an init container": (
        f"initContainers[0].resources.requests[{GPU}]",
        {"initContainers": [gpus(-1, "init")], "containers": [gpus(1)]},
    ),
    "a request below the limit": (
        f"containers[0].resources.requests[{GPU}]",
        {"containers": [container(requests={GPU: 0}, limits={GPU: 3})]},
    ),
    "half a device": (
        f"containers[0].resources.requests[{GPU}]",
        {"containers": [gpus("500m"), gpus("500m", "second")]},
    ),
    "a request of the pod below that of its containers": (
        "resources.requests[cpu]",
        {
            "containers": [container(requests={"cpu": 2}), container("b", requests={"cpu": 2})],
            "resources": {"requests": {"cpu": 3}},
        },
    ),
    "a request of the pod below that of an init container": (
        "resources.requests[memory]",
        {
            "initContainers": [container("init", requests={"memory": "2Gi"})],
            "containers": [container()],
            "resources": {"requests": {"memory": "1Gi"}},
        },
    ),
    "a limit of the pod below the requests of its containers": (
        "resources.requests[cpu]",
        {
            "containers": [container(requests={"cpu": 2})],
            "resources": {"limits": {"cpu": 1}},
        },
    ),
    "a negative request of the pod": (
        "resources.requests[cpu]",
        {"containers": [container()], "resources": {"requests": {"cpu": "-4"}}},
    ),
    "a name that is no name of a resource": (
        "overhead[not a name]",
        {"containers": [container()], "overhead": {"not a name": 1}},
    ),
    "a name of any length": (
        f"containers[0].resources.limits[{'x' * 100}]",
        {"containers": [container(limits={"x" * 100_000: 1})]},
    ),
    "devices of the pod": (
        "resources.requests",
        {"containers": [gpus(2)], "resources": {"requests": {GPU: 0}, "limits": {GPU: 0}}},
    ),
}


@pytest.fixture(scope="module")
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("vision", "vision"))
    yield local
    local.close()


@pytest.mark.parametrize("attack", REDUCED)
def test_amounts_that_would_reduce_others_are_rejected(api: Local, attack: str) -> None:
    field, spec = REDUCED[attack]
    assert f"spec.{field}" in faulty_fields(api, PODS, pod("a", **copy.deepcopy(spec)))
    one = job("a")
    one["spec"]["template"]["spec"] |= copy.deepcopy(spec)
    assert f"spec.template.spec.{field}" in faulty_fields(api, JOBS, copy.deepcopy(one))
    cron: Json = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "a"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": one["spec"]}},
    }
    assert f"spec.jobTemplate.spec.template.spec.{field}" in faulty_fields(api, CRON_JOBS, cron)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [gpus(1)], "overhead": {"cpu": "250m", "memory": "64Mi"}},
        {
            "containers": [container(requests={"cpu": 1}, limits={"cpu": 2})],
            "resources": {"requests": {"cpu": 3}, "limits": {"cpu": 4}},
        },
        {
            "initContainers": [container("init", requests={"cpu": 3})],
            "containers": [container(requests={"cpu": 1})],
            "resources": {"limits": {"cpu": 3}},
        },
    ],
)
def test_ordinary_amounts_of_pods_are_accepted(api: Local, spec: Json) -> None:
    one = pod("", **copy.deepcopy(spec))
    one["metadata"] = {"generateName": "fine-"}
    assert api.ask("POST", PODS, one)["metadata"]["uid"]


@pytest.mark.parametrize("count", [-1, -4, 0])
def test_a_stored_pod_without_a_positive_request_gets_no_devices(
    tmp_path: Path, count: int
) -> None:
    allocations = DeviceAllocations(
        str(tmp_path / "devices.json"), {"here": {GPU: ["0", "1", "2", "3"]}}
    )
    grant = allocations.take("uid", "here", {GPU: count})
    assert grant is not None
    assert not any(grant.values())
    assert {} == allocations.holders()


def changes(pod: Json) -> Iterator[tuple[str, Any]]:
    """Attempts to change what a running pod may use, by subresource."""
    more = {"requests": {GPU: 3}, "limits": {GPU: 3}}
    same = {"name": pod["spec"]["containers"][0]["name"]}
    second = {"name": "second", "image": "x", "command": ["sleep", "3600"], "resources": more}
    yield "resize", {"spec": {"containers": [same | {"resources": more}]}}
    yield "", {"spec": {"containers": [same | {"resources": more}]}}
    yield "status", {"spec": {"containers": [same | {"resources": more}]}}
    yield "ephemeralcontainers", {"spec": {"ephemeralContainers": [second]}}
    yield "", {"spec": {"ephemeralContainers": [second]}}
    yield "", {"spec": {"overhead": {GPU: -1}}}
    yield "", {"spec": {"resources": {"requests": {"cpu": 8}}}}


def test_a_running_pod_cannot_be_resized_or_extended(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine)
        (before,) = machine.pods()
        key = Key(TEAM, before["metadata"]["name"])
        for subresource, body in changes(before):
            for kind in (PatchType.MERGE, PatchType.STRATEGIC):
                await refused(
                    machine.ann.patch(resources.PODS, key, body, kind=kind, subresource=subresource)
                )
        await machine.settle()
        (after,) = machine.pods()
        assert (before["spec"], 1) == (after["spec"], machine.held())

    play(tmp_path, story)


@pytest.mark.parametrize("field", ["parallelism", "completions", "backoffLimit"])
def test_numbers_of_32_bits_are_no_larger(api: Local, field: str) -> None:
    # A Job whose parallelism does not fit could be created, but its Workload could not.
    assert 422 == api.refusal("POST", JOBS, job("large", **{field: 2**31}))["code"]
    api.ask("POST", JOBS, job("fits", activeDeadlineSeconds=2**40), dryRun="All")
