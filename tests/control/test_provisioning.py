# SPDX-License-Identifier: Apache-2.0
"""ProvisioningRequests: jobs wait until an autoscaler has nodes for them, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from control.autoscaler import ATOMIC, BOOKING_S, CHECK_CAPACITY, POOL, Autoscaler, node
from control.objects import check, condition, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.api.kueue import AdmissionCheck
from kuota.control.checks.provisioning.controller import ProvisioningController
from kuota.control.checks.provisioning.names import (
    attempt_annotations,
    attempt_of,
    request_name,
)
from kuota.kube.errors import Invalid
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    JOBS,
    NODES,
    POD_TEMPLATES,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    Resource,
)

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
API = "kueue.x-k8s.io/v1beta2"


def config(class_name: str = ATOMIC, **spec: Any) -> Json:
    made = {"provisioningClassName": class_name} | spec
    kind = {"apiVersion": API, "kind": "ProvisioningRequestConfig", "metadata": {"name": "nodes"}}
    return kind | {"spec": made}


def nodes_check(name: str = "capacity") -> Json:
    made = check(name, PROVISIONING)
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "nodes"}
    made["spec"]["parameters"] = reference
    return made


@asynccontextmanager
async def autoscaling(stage: Stage, limit: int = 100) -> AsyncGenerator[Autoscaler]:
    """Let an autoscaler run."""
    made = Autoscaler(stage.api, stage.clock, limit)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def furnish(stage: Stage, settings: Json | None = None, **flavor_spec: Any) -> None:
    """A queue of eight CPUs whose jobs need nodes."""
    checks = {"admissionChecks": [{"name": "capacity"}]}
    await stage.api.apply(
        settings or config(),
        nodes_check(),
        flavor(**flavor_spec),
        local_queue(),
        queue("cq", 8, admissionChecksStrategy=checks),
    )
    await stage.rest()


def requests(stage: Stage) -> list[str]:
    return sorted(each["metadata"]["name"] for each in stage.api.all(PROVISIONING_REQUESTS))


def request(stage: Stage) -> Json:
    (found,) = stage.api.all(PROVISIONING_REQUESTS)
    return found


def state(stage: Stage, name: str = "train") -> Json:
    (found,) = stage.workload(name)["status"]["admissionChecks"]
    return dict(found)


def active(stage: Stage) -> tuple[str, str]:
    found = condition(stage.get(ADMISSION_CHECKS, "capacity"), "Active")
    return found["status"], found["reason"]


def test_a_job_waits_for_missing_nodes_runs_on_them_and_releases_them() -> None:
    async def scene(stage: Stage) -> None:
        selector = {"key": POOL, "valueFromProvisioningClassDetail": "pool"}
        settings = config(podSetUpdates={"nodeSelector": [selector]})
        async with autoscaling(stage) as autoscaler:
            await furnish(stage, settings, nodeLabels={"kind": "gpu"})
            assert ("True", "Active") == active(stage)
            await stage.api.apply(job("train", parallelism=4, completions=4))
            await stage.rest()
            assert stage.suspended("train")
            assert ("Pending", "4 nodes are being added") == (
                state(stage)["state"],
                state(stage)["message"],
            )
            name = request(stage)["metadata"]["name"]
            assert name.endswith("-capacity-1")
            template = autoscaler.templates_seen[f"ppt-{name}-main"]["template"]["spec"]
            assert {"kind": "gpu"} == template["nodeSelector"]
            (owner,) = stage.get(POD_TEMPLATES, f"ppt-{name}-main")["metadata"]["ownerReferences"]
            assert ("ProvisioningRequest", name) == (owner["kind"], owner["name"])

            await stage.rest(60)
            assert 4 == len(stage.api.all(NODES))
            assert not stage.suspended("train")
            pod = stage.job("train")["spec"]["template"]
            assert {POOL: name, "kind": "gpu"} == pod["spec"]["nodeSelector"]
            annotations = pod["metadata"]["annotations"]
            assert name == annotations["autoscaling.x-k8s.io/consume-provisioning-request"]
            assert ATOMIC == annotations["autoscaling.x-k8s.io/provisioning-class-name"]

            await stage.rest(BOOKING_S)
            assert not stage.suspended("train"), "a booking that expires does not stop a job"
            await stage.kubelet.end("train", "Complete")
            await stage.rest()
            assert [] == requests(stage)
            await stage.rest()
            assert [] == stage.api.all(NODES)
            assert [] == stage.api.all(POD_TEMPLATES)

    run_scene(scene)


def test_check_capacity_waits_until_nodes_are_free() -> None:
    async def scene(stage: Stage) -> None:
        async with autoscaling(stage):
            await furnish(stage, config(CHECK_CAPACITY, parameters={"ValidUntilSeconds": "60"}))
            annotations = {
                "provreq.kueue.x-k8s.io/ValidUntilSeconds": "0",
                "provreq.kueue.x-k8s.io/zone": "a",
            }
            await stage.api.apply(job("train", parallelism=2, annotations=annotations))
            await stage.rest(30)
            assert stage.suspended("train")
            assert "there is no room for 2 pods" == state(stage)["message"]
            assert {"ValidUntilSeconds": "0", "zone": "a"} == request(stage)["spec"]["parameters"]
            uid = request(stage)["metadata"]["uid"]
            for name in ("n1", "n2"):
                await stage.api.create(NODES, node(name))
            await stage.rest(30)
            assert not stage.suspended("train")
            assert uid == request(stage)["metadata"]["uid"]

    run_scene(scene)


def test_a_failed_attempt_is_retried_later_and_the_last_one_deactivates_the_workload() -> None:
    async def scene(stage: Stage) -> None:
        retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
        async with autoscaling(stage, limit=3):
            await furnish(stage, config(retryStrategy=retry))
            await stage.api.apply(job("train", parallelism=4))
            await stage.rest(65)
            assert "True/AdmissionCheck" == stage.says("train", "Evicted")
            assert [] == requests(stage), "an eviction deletes the requests"
            assert (1, 60) == (state(stage)["retryCount"], state(stage)["requeueAfterSeconds"])
            assert "False" == stage.condition("train", "QuotaReserved")["status"]
            await stage.rest(60)
            assert request(stage)["metadata"]["name"].endswith("-capacity-2")
            await stage.rest(65)
            assert stage.workload("train")["spec"]["active"] is False
            assert "True/DeactivatedDueToAdmissionCheck" == stage.says("train", "Evicted")
            assert [] == requests(stage)
            assert stage.suspended("train")

    run_scene(scene)


def test_a_booking_that_expires_before_the_job_starts_is_retried() -> None:
    async def scene(stage: Stage) -> None:
        async with autoscaling(stage):
            await furnish(stage)
            other = {"admissionChecks": [{"name": "capacity"}, {"name": "slow"}]}
            await stage.api.apply(check("slow"), queue("cq", 8, admissionChecksStrategy=other))
            await stage.activate("slow")
            await stage.api.apply(job("train"))
            await stage.rest(70)
            states = {e["name"]: e["state"] for e in _checks(stage)}
            assert {"capacity": "Ready", "slow": "Pending"} == states
            await stage.rest(BOOKING_S)
            (found,) = [each for each in _checks(stage) if each["name"] == "capacity"]
            assert 1 == found["retryCount"]
            assert "True/AdmissionCheck" == stage.says("train", "Evicted")
            await stage.rest(60)
            assert request(stage)["metadata"]["name"].endswith("-capacity-2")

    run_scene(scene)


def _checks(stage: Stage) -> list[Json]:
    found: list[Json] = stage.workload("train")["status"]["admissionChecks"]
    return found


def test_revoked_capacity_deactivates_a_running_job() -> None:
    async def scene(stage: Stage) -> None:
        async with autoscaling(stage) as autoscaler:
            await furnish(stage)
            await stage.api.apply(job("train"))
            await stage.rest(70)
            assert not stage.suspended("train")
            revoked = "CapacityRevoked", "True", "NodesDeleted", "the nodes were reclaimed"
            await autoscaler.set_condition(request(stage), *revoked)
            await stage.rest()
            assert stage.workload("train")["spec"]["active"] is False
            assert stage.suspended("train")
            assert "AdmissionCheckRejected" in stage.events("Workload")

    run_scene(scene)


def test_a_job_without_managed_resources_needs_no_nodes() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, config(managedResources=["nvidia.com/gpu"]))
        await stage.api.apply(job("train"))
        await stage.rest()
        assert not stage.suspended("train")
        assert "Ready" == state(stage)["state"]
        assert [] == requests(stage)

    run_scene(scene)


def test_a_changed_configuration_replaces_the_request_and_its_templates() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        await stage.api.apply(job("train"))
        await stage.rest()
        before = request(stage)
        assert "waiting for an autoscaler" in state(stage)["message"]
        await stage.edit(
            PROVISIONING_REQUEST_CONFIGS, "nodes", {"spec": {"parameters": {"zone": "b"}}}
        )
        await stage.rest()
        after = request(stage)
        assert before["metadata"]["uid"] != after["metadata"]["uid"]
        assert {"zone": "b"} == after["spec"]["parameters"]
        name = after["spec"]["podSets"][0]["podTemplateRef"]["name"]
        (owner,) = stage.get(POD_TEMPLATES, name)["metadata"]["ownerReferences"]
        assert after["metadata"]["uid"] == owner["uid"]

    run_scene(scene)


def test_a_check_without_its_configuration_is_inactive_and_says_so() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        await stage.api.apply(job("train"))
        await stage.rest()
        await stage.api.delete(PROVISIONING_REQUEST_CONFIGS, Key("", "nodes"))
        await stage.rest()
        assert ("False", "BadParametersRef") == active(stage)
        assert "the check is not active" == state(stage)["message"]
        assert [] == requests(stage)
        await stage.api.apply(config())
        await stage.rest()
        assert ("True", "Active") == active(stage)
        assert 1 == len(requests(stage))

    run_scene(scene)


def test_a_rejected_request_is_explained_on_the_check_and_tried_again() -> None:
    async def scene(stage: Stage) -> None:
        fault = Invalid(422, "Invalid", "spec.parameters: must have at most 100 entries")
        stage.api.refuse["create", PROVISIONING_REQUESTS.kind] = [fault, fault]
        await furnish(stage)
        await stage.api.apply(job("train"))
        await stage.rest()
        assert "FailedCreate" in stage.events("Workload")
        assert 1 == len(requests(stage))
        assert "waiting for an autoscaler" in state(stage)["message"]

    run_scene(scene)


def test_a_request_of_another_owner_is_kept_and_reported_once() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        await stage.api.apply(job("blocker", "8"), job("train"))
        await stage.rest()
        meta = {"name": f"{stage.workload('train')['metadata']['name']}-capacity-1"}
        kind = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest"}
        foreign = kind | {"metadata": meta | {"namespace": "team"}, "spec": {}}
        await stage.api.create(PROVISIONING_REQUESTS, foreign)
        await stage.api.delete(JOBS, Key("team", "blocker"))
        await stage.rest(200)
        assert "does not belong to this Workload" in state(stage)["message"]
        assert 1 == stage.events("Workload").count("FailedCreate")
        assert {} == request(stage)["spec"]
        await stage.api.delete(PROVISIONING_REQUESTS, Key("team", meta["name"]))
        await stage.rest(60)
        assert 1 == request(stage)["spec"]["podSets"][0]["count"]

    run_scene(scene)


def test_podsets_merged_by_the_policy_share_a_template() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, config(podSetMergePolicy="IdenticalWorkloadSchedulingRequirements"))
        await stage.api.apply(job("train", parallelism=3))
        await stage.rest()
        assert [3] == [each["count"] for each in request(stage)["spec"]["podSets"]]

    run_scene(scene)


def test_a_long_name_is_shortened_and_its_attempt_known() -> None:
    check = "c" * 120
    name = request_name("w" * 200, check, 7)
    assert 253 == len(name)
    meta = {"name": name, "annotations": attempt_annotations("w" * 200, check, 7)}
    assert 7 == attempt_of({"metadata": meta}, "w" * 200, check)
    assert attempt_of({"metadata": meta}, "w" * 200, "d" * 120) is None
    assert attempt_of({"metadata": meta | {"name": "other"}}, "w" * 200, check) is None
    assert {} == attempt_annotations("w", "c", 7)
    assert 7 == attempt_of({"metadata": {"name": "w-c-7"}}, "w", "c")
    assert attempt_of({"metadata": {"name": "w-c-7x"}}, "w", "c") is None


def test_a_malformed_request_of_the_workload_breaks_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        await stage.api.apply(job("train"))
        await stage.rest()
        malformed = {"spec": {"podSets": ["x", {"count": 1}]}, "status": {"conditions": ["y"]}}
        name = request(stage)["metadata"]["name"]
        await stage.edit(PROVISIONING_REQUESTS, name, malformed)
        await stage.rest()
        assert "Pending" == state(stage)["state"]
        assert "InternalError" not in stage.events("Workload")

    run_scene(scene)


def test_without_the_definition_a_check_says_what_to_install() -> None:
    class Unserved:
        def get(self, resource: Resource, key: Key) -> Json | None:
            return config() if resource == PROVISIONING_REQUEST_CONFIGS else None

        def for_workload(self, resource: Resource, workload: Key) -> list[Json]:
            return []

        def lacking(self, resource: Resource) -> bool:
            return resource == PROVISIONING_REQUESTS

    made = msgspec.convert(nodes_check(), AdmissionCheck)
    found = ProvisioningController().activity(made, Unserved())
    assert (False, "ProvisioningRequestsNotServed") == (found.active, found.reason)
    assert "install the CustomResourceDefinition" in found.message


def test_a_restart_between_any_two_writes_creates_one_request() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        await stage.api.apply(job("train", parallelism=4))
        for _ in range(6):
            await stage.rest(0.01)
            await stage.restart()
        await stage.rest()
        assert 1 == len(requests(stage))
        name = requests(stage)[0]
        (owner,) = stage.get(POD_TEMPLATES, f"ppt-{name}-main")["metadata"]["ownerReferences"]
        assert request(stage)["metadata"]["uid"] == owner["uid"]

    run_scene(scene)
