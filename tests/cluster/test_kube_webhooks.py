# SPDX-License-Identifier: Apache-2.0
"""A real API server calls our webhooks: defaults, rejections, conversion, CA bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.hooked import Hooked, eventually, hooked
from control.objects import flavor, local_queue, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, Forbidden, KubeError
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
    Resource,
)
from kuota.webhook.certificates import SECRET
from kuota.webhook.injection import MUTATING, VALIDATING

_RBAC = "rbac.authorization.k8s.io"
_ROLES = Resource(_RBAC, "v1", "roles", "Role")
_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
FINALIZER = "kueue.x-k8s.io/resource-in-use"
OLD_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False)
OLD_WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
TEAM = "team"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    with hooked(Path(tmp_path_factory.mktemp("hooked"))) as made:
        yield made


def play(server: Hooked, story: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with server.answering() as client:
            await story(client)

    asyncio.run(run())


def in_old(obj: Json, **spec: Any) -> Json:
    return obj | {"apiVersion": "kueue.x-k8s.io/v1beta1", "spec": obj["spec"] | spec}


def workload(name: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": pods}]},
    }


def reservation(pod_set: str = "main") -> Json:
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
    condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"} | stamp
    usage = {"resourceUsage": {"cpu": "2"}, "flavors": {"cpu": "default"}, "count": 2}
    admission = {"clusterQueue": "cq", "podSetAssignments": [{"name": pod_set} | usage]}
    return {"status": {"conditions": [condition], "admission": admission}}


def test_new_queues_and_flavors_get_their_finalizer(server: Hooked) -> None:
    async def story(client: Client) -> None:
        for resource, obj in ((CLUSTER_QUEUES, queue("f")), (RESOURCE_FLAVORS, flavor("f"))):
            made = await client.create(resource, obj)
            assert [FINALIZER] == made["metadata"]["finalizers"]

    play(server, story)


def test_what_is_wrong_is_refused_with_every_cause(server: Hooked) -> None:
    async def story(client: Client) -> None:
        bad = queue("bad", preemption={"reclaimWithinCohort": "Never"})
        bad["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "-1"
        with pytest.raises(Forbidden, match=r"vclusterqueue.kb.io.*denied") as refusal:
            await client.create(CLUSTER_QUEUES, bad)
        path = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
        assert [path] == [each["field"] for each in refusal.value.causes]

    play(server, story)


def test_jobs_are_held_back_given_queues_and_checked(server: Hooked) -> None:
    async def story(client: Client) -> None:
        held = await client.create(JOBS, job("held", queue="q"))
        assert held["spec"]["suspend"]
        free = await client.create(JOBS, job("free"))
        assert not free["spec"]["suspend"]
        with pytest.raises(Forbidden, match=r"vjob.kb.io.*denied"):
            await client.create(JOBS, job("odd", queue="Not.A_Name"))
        running = {"spec": {"suspend": False}}
        await client.patch(JOBS, Key(TEAM, "held"), running)
        label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}
        with pytest.raises(Forbidden):
            await client.patch(JOBS, Key(TEAM, "held"), label)
        await client.create(LOCAL_QUEUES, placed(local_queue("default")))
        await eventually(lambda: defaulted(client))
        await client.delete(LOCAL_QUEUES, Key(TEAM, "default"))

    async def defaulted(client: Client) -> None:
        made = await client.create(JOBS, job("any"), dry_run=True)
        if not made["spec"]["suspend"]:
            raise KubeError("the queue is not known yet")
        assert "default" == made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]

    play(server, story)


def test_pods_are_checked_and_gated(server: Hooked) -> None:
    async def story(client: Client) -> None:
        made = await client.create(PODS, pod("p", queue="q"))
        assert {"name": "kueue.x-k8s.io/admission"} in made["spec"]["schedulingGates"]
        assert "true" == made["metadata"]["labels"]["kueue.x-k8s.io/managed"]
        with pytest.raises(Forbidden, match=r"vpod.kb.io.*denied"):
            await client.create(PODS, pod("odd", queue="Not.A_Name"))
        unmarked = {"metadata": {"labels": {"kueue.x-k8s.io/managed": "false"}}}
        with pytest.raises(Forbidden, match=r"kueue.x-k8s.io/managed"):
            await client.patch(PODS, Key(TEAM, "p"), unmarked)
        # No controller runs here that would remove it.
        await client.patch(PODS, Key(TEAM, "p"), {"metadata": {"finalizers": None}})
        await client.delete(PODS, Key(TEAM, "p"))

    play(server, story)


def test_jobs_and_workloads_name_who_created_them(server: Hooked) -> None:
    claimed = {"annotations": {AUTHOR: "ben"}, "namespace": TEAM}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}

    async def allowed(client: Client) -> None:
        rule = {"apiGroups": ["*"], "resources": ["jobs", "workloads"], "verbs": ["*"]}
        role = {"metadata": {"name": "writes-jobs", "namespace": TEAM}, "rules": [rule]}
        of = {"apiGroup": _RBAC, "kind": "Role", "name": "writes-jobs"}
        subject = {"apiGroup": _RBAC, "kind": "User", "name": "hanna"}
        await client.create(_ROLES, role)
        await client.create(_BINDINGS, role | {"roleRef": of, "subjects": [subject]})

    async def run() -> None:
        async with server.answering(authors=True) as client, server.server.client("hanna") as hanna:
            await allowed(client)
            given = job("authored", queue="q")
            given = given | {"metadata": given["metadata"] | claimed}
            made = await eventually(lambda: hanna.create(JOBS, given))
            assert "hanna" == made["metadata"]["annotations"][AUTHOR]
            for value in ("ben", None):
                forged = {"metadata": {"annotations": {AUTHOR: value}}}
                with pytest.raises(Forbidden, match="names who created the object"):
                    await hanna.patch(JOBS, Key(TEAM, "authored"), forged)
            owned = workload("authored")
            owned["metadata"] |= claimed | {"ownerReferences": [owner]}
            # An admin may write the status of Workloads, so the name counts as copied.
            for sender, expected in ((hanna, "hanna"), (client, "ben")):
                stored = await sender.create(WORKLOADS, owned, dry_run=True)
                assert expected == stored["metadata"]["annotations"][AUTHOR]

    asyncio.run(run())


def pod(name: str, queue: str) -> Json:
    made = job(name, queue)
    return made | {"apiVersion": "v1", "kind": "Pod", "spec": made["spec"]["template"]["spec"]}


def job(name: str, queue: str = "") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    container = {"name": "c", "image": "i"}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {"template": pods},
    }


def placed(obj: Json) -> Json:
    return obj | {"metadata": obj["metadata"] | {"namespace": TEAM}}


def test_the_status_of_a_workload_is_checked_and_its_pods_are_frozen(server: Hooked) -> None:
    async def story(client: Client) -> None:
        key = Key(TEAM, "w")
        await client.create(WORKLOADS, workload("w"))
        with pytest.raises(Forbidden) as refusal:
            await client.patch(WORKLOADS, key, reservation("other"), subresource="status")
        causes = {each["field"] for each in refusal.value.causes}
        assert {"status.admission.podSetAssignments[0].name"} == causes
        await client.patch(WORKLOADS, key, reservation(), subresource="status")
        current = await client.get(WORKLOADS, key)
        current["spec"]["podSets"][0]["count"] = 3
        with pytest.raises(Forbidden, match=r"podSets"):
            await client.replace(WORKLOADS, current)
        await client.delete(WORKLOADS, key)

    play(server, story)


def test_the_older_version_is_stored_and_read_in_the_newer_and_back(server: Hooked) -> None:
    async def story(client: Client) -> None:
        given = in_old(queue("old"), cohort="eng", admissionChecks=["a", "b"])
        made = await client.create(OLD_QUEUES, given)
        assert ("kueue.x-k8s.io/v1beta1", "eng") == (made["apiVersion"], made["spec"]["cohort"])
        new = await client.get(CLUSTER_QUEUES, Key("", "old"))
        assert "eng" == new["spec"]["cohortName"]
        checks = new["spec"]["admissionChecksStrategy"]["admissionChecks"]
        assert ["a", "b"] == [each["name"] for each in checks]
        stored = server.stored(CLUSTER_QUEUES, "old")
        assert ("kueue.x-k8s.io/v1beta2", "eng") == (
            stored["apiVersion"],
            stored["spec"]["cohortName"],
        )
        await client.patch(OLD_QUEUES, Key("", "old"), {"spec": {"cohort": "ops"}})
        new = await client.get(CLUSTER_QUEUES, Key("", "old"))
        assert "ops" == new["spec"]["cohortName"]
        bad = in_old(queue("bad"))
        bad["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "1"
        with pytest.raises(Forbidden, match=r"vclusterqueue.kb.io.*denied"):
            await client.create(OLD_QUEUES, bad)

    play(server, story)


def test_long_lists_are_converted(server: Hooked) -> None:
    async def story(client: Client) -> None:
        spec = {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass"}}
        for number in range(120):
            given = workload(f"many-{number:03}")
            given["spec"]["priority"] = 5
            given["spec"]["priorityClassRef"] = spec["priorityClassRef"] | {"name": "high"}
            await client.create(WORKLOADS, given)
        listing = await client.list(OLD_WORKLOADS, TEAM)
        named = [e for e in listing.items if e["metadata"]["name"].startswith("many-")]
        assert 120 == len(named)
        assert {"high"} == {each["spec"]["priorityClassName"] for each in named}
        for each in named:
            await client.delete(WORKLOADS, Key(TEAM, each["metadata"]["name"]))

    play(server, story)


def test_whom_to_trust_is_reported_everywhere(server: Hooked) -> None:
    async def story(client: Client) -> None:
        secret = await client.get(SECRETS, Key("kueue-system", SECRET))
        wanted = {secret["data"]["ca.crt"]}
        found = set()
        for resource in (MUTATING, VALIDATING):
            (only,) = (await client.list(resource)).items
            found |= {each["clientConfig"]["caBundle"] for each in only["webhooks"]}
        for each in (await client.list(CRDS)).items:
            conversion = each["spec"]["conversion"]
            if conversion["strategy"] == "Webhook":
                found.add(conversion["webhook"]["clientConfig"]["caBundle"])
        assert wanted == found

    play(server, story)


def test_no_request_is_rejected_while_the_certificate_is_renewed(server: Hooked) -> None:
    async def story(client: Client) -> None:
        key = Key("kueue-system", SECRET)
        before = (await client.get(SECRETS, key))["data"]["tls.crt"]
        answers = 0
        renewed = asyncio.Event()

        async def ask() -> None:
            nonlocal answers
            while not (renewed.is_set() and answers > 100):
                made = await client.create(JOBS, job("j", queue="q"), dry_run=True)
                assert made["spec"]["suspend"]
                old = in_old(queue("x"), cohort="c")
                await client.create(OLD_QUEUES, old, dry_run=True)
                answers += 1

        async def other() -> str:
            after: str = (await client.get(SECRETS, key))["data"]["tls.crt"]
            if after == before:
                raise KubeError("not yet")
            return after

        async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
            asking = group.create_task(ask())
            await client.delete(SECRETS, key)
            await eventually(other)
            # The new one is shown once the API server has had time to trust it.
            await asyncio.sleep(3)
            renewed.set()
            await asking

    play(server, story)


def test_jobs_of_the_system_do_not_wait_for_webhooks_that_are_away(server: Hooked) -> None:
    async def run() -> None:
        async with server.server.client() as client:
            system = job("j")
            system["metadata"]["namespace"] = "kube-system"
            await client.create(JOBS, system, dry_run=True)
            with pytest.raises(ApiError, match=r"failed calling webhook|failed to call webhook"):
                await client.create(JOBS, job("j"), dry_run=True)

    asyncio.run(run())
