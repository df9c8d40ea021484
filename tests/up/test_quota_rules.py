# SPDX-License-Identifier: Apache-2.0
"""Warnings about Jobs that will not do what their author may expect, and the rules turned off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from attack.members import TEAMS, job
from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.server.api import ApiServer
from kuota.server.job_kinds import MOST_REPLICAS
from kuota.server.requests import Request, Response, User
from kuota.server.store import Store
from kuota.up.job_hook import job_hook
from kuota.up.quota_enforcement import QuotaEnforcement

ANN = User("ann", ("vision", "system:authenticated"))
ROOT = User("root", ("system:masters", "system:authenticated"))
PATHS = {"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/namespaces/vision/pods"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
Send = Callable[[User, Json], Awaitable[Response]]


def test_one_machine_limits_the_workloads_of_a_set_that_an_older_version_stored() -> None:
    store = Store.open(":memory:")
    assert MOST_REPLICAS == QuotaEnforcement(store, LifecycleConfig()).lifecycle.max_replicas
    store.close()


def play(story: Callable[[Send], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        store = Store.open(":memory:")
        quota = QuotaEnforcement(store, LifecycleConfig(), max_grace_s=60, **options)
        hooks = (job_hook(store, quota.lifecycle),)
        api = ApiServer(store, hooks=hooks, validators=(quota.rules,), pods=quota.deletion)
        await api.start()

        async def send(user: User, obj: Json) -> Response:
            body = msgspec.json.encode(obj)
            path = PATHS.get(obj["kind"]) or _path(obj)
            headers = {"content-type": "application/json"}
            return await api.handle(
                Request(method="POST", path=path, query={}, headers=headers, body=body, user=user)
            )

        try:
            for each in load_all(TEAMS.replace("TEAM", "vision")):
                assert 201 == (await send(ROOT, each)).status
            await story(send)
        finally:
            await api.close()
            store.close()

    asyncio.run(whole())


def _path(obj: Json) -> str:
    namespace = obj["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{obj['apiVersion']}{place}/{obj['kind'].lower()}s"


def _job(queue: str = "main", namespace: str = "vision", grace_s: int = 30) -> Json:
    made = job("train", ["true"], queue=queue)
    made["metadata"]["namespace"] = namespace
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace_s
    return made


def _pod() -> Json:
    spec = _job()["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def _suspended(response: Response) -> bool:
    assert isinstance(response.body, bytes)
    return bool(msgspec.json.decode(response.body)["spec"].get("suspend"))


def test_a_job_without_a_queue_waits_and_its_author_is_told_what_to_do() -> None:
    async def story(send: Send) -> None:
        response = await send(ANN, _job(queue=""))
        assert _suspended(response)
        (said,) = response.warnings
        assert "LocalQueues there: main" in said
        assert "kueue.x-k8s.io/queue-name" in said

    play(story)


def test_a_job_without_a_queue_goes_to_the_default_queue_of_a_team() -> None:
    async def story(send: Send) -> None:
        queue = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": "vision"},
            "spec": {"clusterQueue": "vision"},
        }
        assert 201 == (await send(ROOT, queue)).status
        response = await send(ANN, _job(queue=""))
        assert ((), True) == (tuple(response.warnings), _suspended(response))

    play(story)


def test_a_grace_period_above_the_maximum_is_accepted_with_a_warning() -> None:
    async def story(send: Send) -> None:
        (said,) = (await send(ANN, _job(grace_s=3600))).warnings
        assert "3600 exceeds the maximum of this machine" in said
        assert "killed after 60 seconds" in said

    play(story)


def test_admins_may_create_pods_and_jobs_without_a_queue_where_no_team_is() -> None:
    async def story(send: Send) -> None:
        assert 201 == (await send(ROOT, _pod())).status
        response = await send(ROOT, _job(queue="", namespace="default"))
        assert (201, False) == (response.status, _suspended(response))

    play(story)


def test_a_pod_of_a_member_is_gated() -> None:
    async def story(send: Send) -> None:
        response = await send(ANN, _pod())
        assert isinstance(response.body, bytes)
        stored = msgspec.json.decode(response.body)
        gates = [each["name"] for each in stored["spec"]["schedulingGates"]]
        assert "kueue.x-k8s.io/admission" in gates
        (said,) = response.warnings
        assert "the Pod waits until it has the label" in said

    play(story)


@pytest.mark.parametrize(
    ("metadata", "spec", "words"),
    [
        ({"ownerReferences": [OWNER]}, {}, "only the controller of a job"),
        ({}, {"nodeName": "here"}, "spec.nodeName"),
    ],
    ids=["a controller", "a node"],
)
def test_members_create_no_pod_with(metadata: Json, spec: Json, words: str) -> None:
    async def story(send: Send) -> None:
        made = _pod()
        made["metadata"] |= metadata
        made["spec"] |= spec
        response = await send(ANN, made)
        assert isinstance(response.body, bytes)
        assert (403, True) == (response.status, words in str(msgspec.json.decode(response.body)))

    play(story)


def test_an_admin_can_turn_the_rules_off() -> None:
    async def story(send: Send) -> None:
        assert 201 == (await send(ANN, _pod())).status
        response = await send(ANN, _job(queue=""))
        assert (201, False) == (response.status, _suspended(response))

    play(story, allow_unqueued=True)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_queued_job_is_suspended_with_and_without_the_rules(allowed: bool) -> None:
    async def story(send: Send) -> None:
        assert _suspended(await send(ANN, _job()))

    play(story, allow_unqueued=allowed)


@pytest.mark.parametrize("user", [ANN, ROOT])
@pytest.mark.parametrize(
    ("kind", "instead"), [("ReplicaSet", "Deployment"), ("ControllerRevision", "StatefulSet")]
)
def test_only_controllers_record_templates(user: User, kind: str, instead: str) -> None:
    """Pods are created from these records, and a ReplicaSet of a user would run nothing."""

    async def story(send: Send) -> None:
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": _pod()["spec"]}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        content = {"spec": spec} if kind == "ReplicaSet" else {"revision": 1, "data": {}}
        meta = {"name": "r", "namespace": "vision"}
        made = {"apiVersion": "apps/v1", "kind": kind, "metadata": meta} | content
        response = await send(user, made)
        assert 403 == response.status
        assert isinstance(response.body, bytes)
        assert f"create a {instead}" in msgspec.json.decode(response.body)["message"]

    play(story)
