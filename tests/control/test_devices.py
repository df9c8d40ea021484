# SPDX-License-Identifier: Apache-2.0
"""Devices requested through dynamic resource allocation are charged to quota."""

from __future__ import annotations

import json

import pytest

from control.objects import flavor, job, local_queue
from control.stage import CONFIG, Stage, run_scene
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.bridge.settings import policy
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    JOBS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)

GPU = "gpu.example.com"
MIG = "mig.example.com"


def mapping(name: str, device_class: str, **source: Json) -> Json:
    found: Json = {"name": name, "deviceClassNames": [device_class]}
    return found | ({"sources": [source]} if source else {})


def config(*mappings: Json) -> Json:
    return {"resources": {"deviceClassMappings": list(mappings)}}


def device_class(name: str, **spec: object) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def template(name: str, device_class: str, count: int = 1, selector: str = "") -> Json:
    exactly: Json = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    requests = [{"name": "gpu", "exactly": exactly}]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def resource_slice(*devices: Json) -> Json:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "node-1"},
        "spec": {"driver": GPU, "pool": pool, "devices": list(devices)},
    }


def profile(name: str, share: str, memory: str) -> Json:
    """A MIG profile: the slices of the GPU's computing units, and memory, that it consumes."""
    counters = {"memory": {"value": memory}, "slices": {"value": share.removesuffix("g")}}
    return {
        "name": name,
        "attributes": {"profile": {"string": share}},
        "consumesCounters": [{"counterSet": "gpu", "counters": counters}],
    }


def of_profile(share: str) -> str:
    """The selector of devices with this profile."""
    return f'device.attributes["{GPU}"].profile == "{share}"'


def queue(quotas: dict[str, str]) -> Json:
    offered = {"cpu": "100", **quotas}
    resources = [{"name": name, "nominalQuota": quota} for name, quota in offered.items()]
    flavors = [{"name": "default", "resources": resources}]
    group = {"coveredResources": list(offered), "flavors": flavors}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
    }


def claiming(name: str, claim_template: str) -> Json:
    made = job(name)
    made["spec"]["template"]["spec"]["resourceClaims"] = [
        {"name": "gpu", "resourceClaimTemplateName": claim_template}
    ]
    return made


async def furnish(stage: Stage, resource: str, quota: str) -> None:
    await stage.api.apply(flavor(), queue({resource: quota}), local_queue())


def charged(stage: Stage, name: str) -> Json:
    """The usage of a job."""
    (only,) = stage.workload(name)["status"]["admission"]["podSetAssignments"]
    usage: Json = only["resourceUsage"]
    return usage


def in_use(stage: Stage) -> Json:
    """The usage of the ClusterQueue by resource."""
    (only,) = stage.get(CLUSTER_QUEUES, "cq")["status"]["flavorsUsage"]
    return {each["name"]: each["total"] for each in only["resources"]}


def test_devices_of_a_class_are_counted() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, "gpus", "3")
        await stage.api.create(DEVICE_CLASSES, device_class(GPU))
        await stage.api.create(RESOURCE_CLAIM_TEMPLATES, template("two", GPU, 2))
        await stage.api.apply(claiming("a", "two"), claiming("b", "two"))
        await stage.rest()
        assert [False, True] == [stage.suspended(each) for each in "ab"]
        assert "2" == charged(stage, "a")["gpus"]

    run_scene(scene, config(mapping("gpus", GPU)))


def test_a_job_waits_with_a_reason_until_its_template_exists() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, "gpus", "3")
        await stage.api.apply(claiming("a", "one"), job("other"))
        await stage.rest()
        assert stage.suspended("a")
        assert not stage.suspended("other")
        assert "False/Misconfigured" == stage.says("a", "QuotaReserved")
        assert "False/Inadmissible" == stage.says("a", "Requeued")
        assert "one does not exist" in stage.condition("a", "QuotaReserved")["message"]
        await stage.api.create(DEVICE_CLASSES, device_class(GPU))
        await stage.api.create(RESOURCE_CLAIM_TEMPLATES, template("one", GPU))
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene, config(mapping("gpus", GPU)))


@pytest.mark.parametrize(
    ("selector", "complaint"),
    [
        ("gpu.model == 'a'", 'refers to "gpu"'),
        ("device.model == 'a'", 'refers to "device.model"'),
        ("device.driver.size(", "is never closed"),
        ("nosuch(device)", "nosuch"),
        ("'a'", "must be a boolean"),
    ],
)
def test_a_selector_that_does_not_compile_is_reported_without_a_device(
    selector: str, complaint: str
) -> None:
    pytest.importorskip("cel_expr_python", reason="the extra policies is not installed")

    async def scene(stage: Stage) -> None:
        await furnish(stage, "gpus", "3")
        await stage.api.create(DEVICE_CLASSES, device_class(GPU))
        await stage.api.create(RESOURCE_CLAIM_TEMPLATES, template("one", GPU, 1, selector))
        await stage.api.apply(claiming("a", "one"))
        await stage.rest()
        assert complaint in stage.condition("a", "QuotaReserved")["message"]

    run_scene(scene, config(mapping("gpus", GPU)))


def test_a_partition_is_charged_by_the_share_of_the_gpu_that_it_uses() -> None:
    pytest.importorskip("cel_expr_python", reason="the extra policies is not installed")
    memory = {"counter": {"name": "memory", "driver": GPU}}

    async def scene(stage: Stage) -> None:
        await furnish(stage, "gpu-memory", "80Gi")
        await stage.api.create(DEVICE_CLASSES, device_class(MIG))
        small, large = profile("mig-0", "1g", "10Gi"), profile("mig-1", "3g", "40Gi")
        await stage.api.create(RESOURCE_SLICES, resource_slice(small, large))
        only_small = template("small", MIG, 1, of_profile("1g"))
        await stage.api.create(RESOURCE_CLAIM_TEMPLATES, only_small)
        await stage.api.create(RESOURCE_CLAIM_TEMPLATES, template("any", MIG))
        await stage.api.apply(claiming("a", "small"), claiming("b", "any"), claiming("c", "any"))
        await stage.rest()
        assert {"a": "10Gi", "b": "40Gi"} == {e: charged(stage, e)["gpu-memory"] for e in "ab"}
        assert stage.suspended("c"), "60 Gi of 80 Gi would not be left for the largest device"

    run_scene(scene, config(mapping("gpu-memory", MIG, **memory)))


def test_mig_profiles_share_the_quota_of_one_gpu_and_release_it() -> None:
    pytest.importorskip("cel_expr_python", reason="the extra policies is not installed")
    profiles = {"1g": "10Gi", "3g": "40Gi", "4g": "40Gi"}
    sources = {
        f"gpu-{name}": {"counter": {"name": name, "driver": GPU}} for name in ("memory", "slices")
    }

    async def scene(stage: Stage) -> None:
        quotas = {"gpu-memory": "100Gi", "gpu-slices": "7"}
        await stage.api.apply(flavor(), queue(quotas), local_queue())
        await stage.api.create(DEVICE_CLASSES, device_class(MIG))
        devices = [profile(f"mig-{share}", share, size) for share, size in profiles.items()]
        await stage.api.create(RESOURCE_SLICES, resource_slice(*devices))
        for share in profiles:
            claim = template(f"mig-{share}", MIG, 1, of_profile(share))
            await stage.api.create(RESOURCE_CLAIM_TEMPLATES, claim)
            await stage.api.apply(claiming(f"job-{share}", f"mig-{share}"))
            await stage.rest()
        assert ("10Gi", "1") == tuple(charged(stage, "job-1g")[each] for each in sources)
        assert ("40Gi", "3") == tuple(charged(stage, "job-3g")[each] for each in sources)
        assert {"cpu": "2", "gpu-memory": "50Gi", "gpu-slices": "4"} == in_use(stage)
        message = stage.condition("job-4g", "QuotaReserved")["message"]
        assert "gpu-slices in flavor default: 1 more needed" in message
        await stage.api.delete(JOBS, Key("team", "job-3g"))
        await stage.rest()
        assert not stage.suspended("job-4g")
        assert {"cpu": "2", "gpu-memory": "50Gi", "gpu-slices": "5"} == in_use(stage)

    run_scene(scene, config(*(mapping(name, MIG, **source) for name, source in sources.items())))


def test_mig_profiles_of_a_device_plugin_are_charged_by_their_share() -> None:
    outputs = {"gpu-slices": "3", "gpu-memory-gb": "40"}
    rule = {"input": "nvidia.com/mig-3g.40gb", "strategy": "Replace", "outputs": outputs}

    def requesting(name: str) -> Json:
        made = job(name)
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["resources"]["limits"] = {rule["input"]: "1"}
        return made

    async def scene(stage: Stage) -> None:
        quotas = {"gpu-memory-gb": "80", "gpu-slices": "7"}
        await stage.api.apply(flavor(), queue(quotas), local_queue())
        await stage.api.apply(*map(requesting, "abc"))
        await stage.rest()
        assert [False, False, True] == [stage.suspended(each) for each in "abc"]
        assert {"cpu": "1"} | outputs == charged(stage, "a")
        assert {"cpu": "2", "gpu-memory-gb": "80", "gpu-slices": "6"} == in_use(stage)

    run_scene(scene, {"resources": {"transformations": [rule]}})


def test_a_claim_by_name_is_never_admitted() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, "gpus", "3")
        made = job("a")
        made["spec"]["template"]["spec"]["resourceClaims"] = [
            {"name": "gpu", "resourceClaimName": "mine"}
        ]
        await stage.api.apply(made)
        await stage.rest()
        assert stage.suspended("a")
        assert "use ResourceClaimTemplates" in stage.condition("a", "QuotaReserved")["message"]

    run_scene(scene, config(mapping("gpus", GPU)))


def test_resources_of_counters_and_capacity_are_sizes() -> None:
    source = {"name": "memory", "driver": "gpu.example.com"}
    mappings = (
        mapping("counted", GPU, counter=source),
        mapping("capacity", MIG, capacity=source),
        mapping("devices", "other.example.com"),
    )
    cfg = load(json.dumps(CONFIG | config(*mappings)))
    on = Gates.of({"KueueDRAIntegration": True}, check=False)
    assert policy(cfg, on).sizes == {"counted", "capacity"}
    off = Gates.of({"KueueDRAIntegration": False}, check=False)
    assert policy(cfg, off).sizes == frozenset()
