# SPDX-License-Identifier: Apache-2.0
"""Actions with the permissions of the viewer, on the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from control.objects import flavor, job, local_queue, namespace, queue, workload_class
from kuota.api.base import Json, Key
from kuota.dashboard.actions import Actions, ReviewedClient, parse_request
from kuota.dashboard.shapes import ActionName, ActionRequest, ActionResult
from kuota.kube.access import AccessRequest
from kuota.kube.client import Client
from kuota.kube.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, User
from kuota.server.store import Store
from kuota.up.local import LocalTransport, local_client

ADMIN = User("root", (ADMINS, "system:authenticated"))
MEMBER = User("ann", ("red", "system:authenticated"))
STRANGER = User("eve", ("blue", "system:authenticated"))
_KINDS = {
    each.kind: each
    for each in (
        *(NAMESPACES, RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, JOBS),
        WORKLOAD_PRIORITY_CLASSES,
    )
}


class Ground:
    """An embedded server with a queue and a workload of team red."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.client = local_client(api)
        self.actions = Actions(self.client)

    def acting(self, user: User) -> Client:
        return Client(LocalTransport(self.api, user))

    async def act(self, user: User, action: str, **fields: Any) -> ActionResult:
        kind = "Workload" if action in ("hold", "release", "setPriority") else "ClusterQueue"
        given: Json = {"kind": kind, "name": "w" if kind == "Workload" else "cq"} | fields
        if given["kind"] != "ClusterQueue":
            given = {"namespace": "team"} | given
        request = ActionRequest(action=ActionName(action), **given)
        return await self.actions.carry_out(request, user.name, self.acting(user))

    async def create(self, *objects: Json) -> list[Json]:
        return [await self.client.create(_KINDS[each["kind"]], each) for each in objects]

    async def spec(self, resource: Resource, name: str) -> Json:
        space = "team" if resource.namespaced else ""
        found: Json = (await self.client.get(resource, Key(space, name)))["spec"]
        return found

    async def events(self) -> list[tuple[str, str, str]]:
        found = (await self.client.list(CORE_EVENTS)).items
        return [
            (each["involvedObject"]["kind"], each["reason"], each["message"])
            for each in sorted(found, key=lambda each: str(each["metadata"]["name"]))
        ]


def workload(name: str = "w", **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pods = {"name": "main", "count": 1, "template": template}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"queueName": "main", "podSets": [pods]} | spec,
    }


def story(scene: Callable[[Ground], Awaitable[None]]) -> None:
    async def run() -> None:
        api = ApiServer(Store.open(":memory:"))
        ground = Ground(api)
        try:
            await ground.create(
                namespace("team", **{"kuota.dev/team": "red"}),
                *(flavor(), queue("cq"), local_queue(), workload()),
                *(workload_class("high", 100), workload_class("low", 1)),
            )
            await scene(ground)
        finally:
            api.store.close()

    asyncio.run(run())


async def finish(ground: Ground, kind: str = "Finished", status: str = "True") -> None:
    condition = {
        "type": kind,
        "status": status,
        "reason": "Succeeded",
        "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await ground.client.patch(
        WORKLOADS, Key("team", "w"), {"status": {"conditions": [condition]}}, subresource="status"
    )


def test_a_workload_is_held_and_released_with_events_that_name_the_users() -> None:
    async def scene(ground: Ground) -> None:
        other = User("boss", (ADMINS, "system:authenticated"))
        assert "Workload team/w held" == (await ground.act(ADMIN, "hold")).message
        assert False is (await ground.spec(WORKLOADS, "w"))["active"]
        assert "Workload team/w released" == (await ground.act(other, "release")).message
        assert True is (await ground.spec(WORKLOADS, "w"))["active"]
        await ground.act(other, "hold")
        notes = [note for kind, _, note in await ground.events() if kind == "Workload"]
        assert ["Held by user root", "Released by user boss", "Held by user boss"] == notes

    story(scene)


def test_queues_are_stopped_and_resumed() -> None:
    async def scene(ground: Ground) -> None:
        for kind, resource, name in (
            ("ClusterQueue", CLUSTER_QUEUES, "cq"),
            ("LocalQueue", LOCAL_QUEUES, "main"),
        ):
            about = {"kind": kind, "name": name}
            policies = []
            for action, more in (("stopQueue", {}), ("stopQueue", {"drain": True})):
                await ground.act(ADMIN, action, **about, **more)
                policies.append((await ground.spec(resource, name))["stopPolicy"])
            await ground.act(ADMIN, "resumeQueue", **about)
            policies.append((await ground.spec(resource, name))["stopPolicy"])
            assert ["Hold", "HoldAndDrain", "None"] == policies
        assert [
            ("ClusterQueue", "QueueStopped", "Stopped (Hold) by user root"),
            ("ClusterQueue", "QueueStopped", "Stopped (HoldAndDrain) by user root"),
            ("ClusterQueue", "QueueResumed", "Resumed by user root"),
        ] == [each for each in await ground.events() if each[0] == "ClusterQueue"]

    story(scene)


def test_the_priority_class_is_set_on_the_job_which_members_may_change() -> None:
    async def scene(ground: Ground) -> None:
        (made,) = await ground.create(job("train"))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
        owner["uid"] = made["metadata"]["uid"]
        body = {"metadata": {"ownerReferences": [owner]}}
        await ground.client.patch(WORKLOADS, Key("team", "w"), body)
        await ground.act(MEMBER, "setPriority", priority_class="high")
        found = await ground.client.get(JOBS, Key("team", "train"))
        assert "high" == found["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
        assert ("Workload", "PriorityChanged", "Got priority class high (100) by user ann") in (
            await ground.events()
        )

    story(scene)


HOSTILE_OWNERS = (
    {"kind": "../blue/workloads/w?x="},
    {"kind": "Job/../../../blue/jobs"},
    {"apiVersion": "../v1"},
    {"apiVersion": "batch/.."},
    {"apiVersion": "batch/v1?x"},
    {"apiVersion": "a/b/v1"},
    {"name": "train/status"},
    {"name": "../train"},
    {"name": ".."},
    {"name": "a%2fb"},
)


@pytest.mark.parametrize("hostile", HOSTILE_OWNERS)
def test_an_owner_reference_does_not_choose_the_path_of_a_request(hostile: Json) -> None:
    class Recording:
        """A client that may do everything, and finds the workload with the hostile reference."""

        def __init__(self) -> None:
            self.patched: list[Resource] = []

        async def get(self, resource: Resource, key: Key) -> Json:
            owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "ok", "uid": "1"}]
            owners.append(owners[0] | hostile)
            metadata = {"name": "w", "namespace": "team", "ownerReferences": owners}
            return {"metadata": metadata, "spec": {}, "value": 7}

        async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
            self.patched.append(resource)
            return {}

    async def scene(ground: Ground) -> None:
        client = Recording()
        request = ActionRequest(
            action=ActionName.SET_PRIORITY,
            kind="Workload",
            namespace="team",
            name="w",
            priority_class="high",
        )
        with pytest.raises(Conflict, match="owner reference"):
            await ground.actions.carry_out(request, "eve", client)
        assert [] == client.patched

    story(scene)


def test_a_workload_without_a_job_gets_class_and_priority_itself() -> None:
    async def scene(ground: Ground) -> None:
        await ground.act(ADMIN, "setPriority", priority_class="low")
        spec = await ground.spec(WORKLOADS, "w")
        assert (1, "low") == (spec["priority"], spec["priorityClassRef"]["name"])
        with pytest.raises(Conflict, match="already has priority class low"):
            await ground.act(ADMIN, "setPriority", priority_class="low")

    story(scene)


def test_nobody_can_do_more_than_the_api_permits() -> None:
    async def scene(ground: Ground) -> None:
        for user, action in (
            *((MEMBER, each) for each in ("hold", "stopQueue")),
            *((STRANGER, each) for each in ("hold", "release", "stopQueue")),
        ):
            with pytest.raises(Forbidden):
                await ground.act(user, action)
        with pytest.raises(Forbidden):
            await ground.act(STRANGER, "setPriority", priority_class="high")
        with pytest.raises(Forbidden):
            await ground.act(MEMBER, "setPriority", priority_class="high")
        assert [] == await ground.events()
        await ground.act(ADMIN, "stopQueue")
        with pytest.raises(Forbidden):
            await ground.act(MEMBER, "resumeQueue")
        assert "Hold" == (await ground.spec(CLUSTER_QUEUES, "cq"))["stopPolicy"]
        assert (await ground.spec(WORKLOADS, "w")).get("active", True)

    story(scene)


def test_what_cannot_be_done_is_explained() -> None:
    async def scene(ground: Ground) -> None:
        with pytest.raises(NotFound, match="nothing"):
            await ground.act(ADMIN, "hold", name="nothing")
        with pytest.raises(Conflict, match="not held"):
            await ground.act(ADMIN, "release")
        with pytest.raises(Conflict, match="cq is not stopped"):
            await ground.act(ADMIN, "resumeQueue")
        with pytest.raises(Invalid, match="no WorkloadPriorityClass of this name"):
            await ground.act(ADMIN, "setPriority", priority_class="unknown")
        await ground.act(ADMIN, "hold")
        with pytest.raises(Conflict, match="already held"):
            await ground.act(ADMIN, "hold")
        await finish(ground)
        for action in ("hold", "release"):
            with pytest.raises(Conflict, match="has finished"):
                await ground.act(ADMIN, action)

    story(scene)


def test_priorities_that_kueue_would_not_change_are_rejected() -> None:
    async def scene(ground: Ground) -> None:
        ref = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "pods"}
        await ground.create(workload("p", priorityClassRef=ref, priority=5))
        with pytest.raises(Conflict, match="PriorityClass pods"):
            await ground.act(ADMIN, "setPriority", name="p", priority_class="high")

    story(scene)


def test_a_malformed_request_gets_all_its_faults_at_once() -> None:
    async def scene(ground: Ground) -> None:
        with pytest.raises(Invalid) as found:
            await ground.act(
                *(ADMIN, "hold"), kind="Secret", name="../x", priority_class="high", drain=True
            )
        for path in ("kind", "name", "priorityClass", "drain"):
            assert f"{path}:" in found.value.message
        with pytest.raises(Invalid, match="namespace: "):
            await ground.act(ADMIN, "stopQueue", kind="LocalQueue", name="main", namespace="")
        with pytest.raises(Invalid, match="namespace: "):
            await ground.act(ADMIN, "stopQueue", namespace="team")
        with pytest.raises(Invalid, match="priorityClass: "):
            await ground.act(ADMIN, "setPriority")

    story(scene)
    for body in (b"", b"[]", b'{"action":"erase","kind":"Workload","name":"w"}', b"\xff"):
        with pytest.raises(BadRequest):
            parse_request(body)
    with pytest.raises(BadRequest):
        parse_request(b'{"action":"hold","kind":"Workload","name":"w","spec":{}}')


def test_another_object_of_the_same_name_is_not_changed() -> None:
    async def scene(ground: Ground) -> None:
        class Late(ReviewedClient):
            """The workload is deleted and created again between reading and writing."""

            async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
                await ground.client.delete(WORKLOADS, key)
                await ground.create(workload())
                return await super().patch(resource, key, body)

        async def everything(_: AccessRequest) -> bool:
            return True

        request = ActionRequest(action=ActionName.HOLD, kind="Workload", namespace="team", name="w")
        with pytest.raises((Conflict, Invalid)):
            await ground.actions.carry_out(request, "root", Late(ground.client, everything))
        assert [] == await ground.events()

    story(scene)


def test_a_viewer_known_by_name_is_reviewed_before_every_request() -> None:
    async def scene(ground: Ground) -> None:
        asked: list[tuple[str, str, str]] = []

        async def may_read(access: AccessRequest) -> bool:
            asked.append((access.verb, access.resource, access.namespace))
            return access.verb == "get"

        request = ActionRequest(action=ActionName.HOLD, kind="Workload", namespace="team", name="w")
        with pytest.raises(Forbidden, match="you may not patch workloads"):
            await ground.actions.carry_out(request, "eve", ReviewedClient(ground.client, may_read))
        assert [("get", "workloads", "team"), ("patch", "workloads", "team")] == asked

        async def nothing(_: AccessRequest) -> bool:
            return False

        with pytest.raises(Forbidden, match="you may not get workloads"):
            await ground.actions.carry_out(request, "eve", ReviewedClient(ground.client, nothing))

    story(scene)


def test_a_permission_that_only_the_dashboard_lacks_is_named() -> None:
    async def scene(ground: Ground) -> None:
        async def everything(_: AccessRequest) -> bool:
            return True

        own = Client(LocalTransport(ground.api, STRANGER))
        client = ReviewedClient(own, everything)
        with pytest.raises(Forbidden, match="but the account of the dashboard may not"):
            await client.patch(WORKLOADS, Key("team", "w"), {"spec": {"active": False}})

    story(scene)


def test_an_event_that_cannot_be_written_does_not_hide_that_the_action_was_done() -> None:
    async def scene(ground: Ground) -> None:
        actions = Actions(ground.acting(STRANGER))
        request = ActionRequest(action=ActionName.HOLD, kind="Workload", namespace="team", name="w")
        done = await actions.carry_out(request, "root", ground.acting(ADMIN))
        assert done.message.startswith("Workload team/w held; the Event could not be written")
        assert False is (await ground.spec(WORKLOADS, "w"))["active"]

    story(scene)
