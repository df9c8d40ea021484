# SPDX-License-Identifier: Apache-2.0
"""Pods, pod groups and the kinds whose pods are queued, with the controllers of these pods.

The API server calls our webhooks, Kubernetes' controllers run Deployments and StatefulSets, and the
operator runs LeaderWorkerSets. Only scheduler and kubelet are replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster import ground
from cluster.definitions import of_operator
from cluster.hooked import Hooked, eventually, hooked
from cluster.job_actor import FLAVOR, HIGH, furnish
from cluster.job_kinds import QUEUE, pods
from cluster.operators import leader_worker_set_webhooks, running
from cluster.stage import CONFIG, Scene, Stage
from control.objects import condition, job
from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.kube.errors import ApiError
from kuota.kube.resources import CRDS, JOBS, PODS, Resource, key_of

FRAMEWORKS = (
    "batch/job",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
SETTINGS = {"integrations": {"frameworks": list(FRAMEWORKS)}}
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
CONTROLLERS = ("deployment-controller", "replicaset-controller", "statefulset-controller")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
LEADER_WORKER_SETS = Resource(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
)


def made(resource: Resource, name: str, **spec: Any) -> Json:
    meta = {"name": name, "namespace": "team", "labels": dict(QUEUE)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta} | {
        "spec": spec
    }


def pod(name: str) -> Json:
    return made(PODS, name, **pods()["spec"])


def member(name: str, *, of: int = 2) -> Json:
    """A Pod of the group `mine`."""
    found = pod(name)
    found["metadata"]["labels"][GROUP] = "mine"
    found["metadata"]["annotations"] = {TOTAL: str(of)}
    return found


def serving(resource: Resource, name: str = "mine") -> Json:
    """A Deployment or a StatefulSet with two pods."""
    template = pods()
    template["metadata"] = {"labels": {"app": name}}
    template["spec"]["restartPolicy"] = "Always"
    chosen = {"matchLabels": {"app": name}}
    found = made(resource, name, replicas=2, selector=chosen, template=template)
    if resource == STATEFUL_SETS:
        found["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return found


def leader_worker_set(name: str = "mine") -> Json:
    template = pods()
    template["spec"]["restartPolicy"] = "Always"
    groups = {"size": 2, "workerTemplate": template, "restartPolicy": "None"}
    return made(LEADER_WORKER_SETS, name, replicas=1, leaderWorkerTemplate=groups)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Objects with two pods of two CPUs each, and those that replace them after a preemption.

    Kinds without `replacements` create new pods themselves. They never finish: `resource` says what
    is deleted in the end.
    """

    name: str
    objects: tuple[Json, ...]
    resource: Resource = PODS
    replacements: tuple[Json, ...] = ()
    workloads: int = 1


STORIES = [
    Story(
        name="Pod",
        objects=(pod("mine-0"), pod("mine-1")),
        replacements=(pod("mine-2"), pod("mine-3")),
        workloads=2,
    ),
    Story(
        name="PodGroup",
        objects=(member("mine-0"), member("mine-1")),
        replacements=(member("mine-2"), member("mine-3")),
    ),
    Story(name="Deployment", objects=(serving(DEPLOYMENTS),), resource=DEPLOYMENTS, workloads=2),
    Story(name="StatefulSet", objects=(serving(STATEFUL_SETS),), resource=STATEFUL_SETS),
    Story(name="LeaderWorkerSet", objects=(leader_worker_set(),), resource=LEADER_WORKER_SETS),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    with hooked(tmp_path_factory.mktemp("serving"), load(json.dumps(CONFIG | SETTINGS))) as made:
        # Garbage collector, operator and our controllers look for new kinds only now and then.
        asyncio.run(_define(made))
        made.server.controllers += CONTROLLERS
        made.server.run("kube-controller-manager")
        yield made


async def _define(server: Hooked) -> None:
    async with server.server.client() as client:
        for each in of_operator("lws"):
            await client.create(CRDS, each)
        await eventually(lambda: client.fetch(f"/apis/{LEADER_WORKER_SETS.api_version}"))


def play(server: Hooked, scene: Scene) -> None:
    async def run() -> None:
        # The webhooks end first: closing the ground waits for every open connection.
        async with ground.real(server.server)() as found, server.answering():
            await Stage(found, SETTINGS, None).play(scene)

    asyncio.run(run())


def mine(stage: Stage, *phases: str) -> list[Json]:
    """The pods of the story that are in one of the phases and not being deleted."""
    return [
        each
        for each in stage.kubelet.pods.values()
        if key_of(each).namespace == stage.names.namespace
        if key_of(each).name.startswith("mine") and not each["metadata"].get("deletionTimestamp")
        if not phases or (each.get("status") or {}).get("phase") in phases
    ]


def gated(stage: Stage) -> list[bool]:
    return [bool(each["spec"].get("schedulingGates")) for each in mine(stage)]


def selectors(stage: Stage) -> list[Json]:
    return [each["spec"].get("nodeSelector") or {} for each in mine(stage, "Running")]


def conditions(stage: Stage, type_: str) -> list[str]:
    """Status and reason of a condition of each Workload that is not that of a Job."""
    found = [
        condition(each, type_)
        for each in stage.workloads()
        if not any(e["kind"] == "Job" for e in each["metadata"].get("ownerReferences") or ())
    ]
    return [f"{each['status']}/{each['reason']}" if each else "" for each in found]


def operated(
    story: Story, server: Hooked, folder: Path
) -> AbstractAsyncContextManager[asyncio.Task[None] | None]:
    """Run the operator of the story, if Kubernetes itself does not run its kind."""
    if story.resource != LEADER_WORKER_SETS:
        return nullcontext()
    return _lws(server, folder)


@asynccontextmanager
async def _lws(server: Hooked, folder: Path) -> AsyncIterator[asyncio.Task[None]]:
    async with (
        server.server.client() as client,
        running("lws", server.server, folder) as controller,
        leader_worker_set_webhooks(client, server.server, folder),
    ):
        yield controller


@pytest.mark.parametrize("story", STORIES, ids=lambda each: each.name)
def test_pods_wait_start_are_preempted_replaced_and_end(
    server: Hooked, tmp_path: Path, story: Story
) -> None:
    async def scene(stage: Stage) -> None:
        async with operated(story, server, tmp_path) as controller:
            if controller is not None:
                stage.require(controller)
            await live(stage, story)

    play(server, scene)


async def live(stage: Stage, story: Story) -> None:
    await furnish(stage)
    stage.follow(story.resource)
    await stage.apply(job("first", "4"))
    await stage.shows(False, stage.suspended, "first")
    # An operator that has just started does not answer at once.
    await eventually(lambda: stage.apply(*story.objects))
    waiting = ["False/WaitingForQuota"] * story.workloads
    await stage.shows(waiting, conditions, stage, "QuotaReserved")
    await stage.holds(lambda: gated(stage) and all(gated(stage)))

    await stage.delete(JOBS, "first")
    await stage.shows([FLAVOR, FLAVOR], selectors, stage)
    await stage.apply(job("urgent", "4", labels=HIGH))
    await stage.shows(1, stage.active, "urgent")
    assert [] == mine(stage, "Running")
    await stage.apply(*story.replacements)
    await stage.holds(lambda: gated(stage) and all(gated(stage)))

    await stage.delete(JOBS, "urgent")
    await stage.shows([FLAVOR, FLAVOR], selectors, stage)
    if story.resource != PODS:
        await stage.delete(story.resource, "mine")
        await stage.shows([], conditions, stage, "QuotaReserved")
    else:
        await stage.kubelet.end(mine(stage, "Running"), "Succeeded")
        finished = ["True/Succeeded"] * story.workloads
        await stage.holds(lambda: conditions(stage, "Finished").count(finished[0]) == len(finished))
    await stage.apply(job("next", "4"))
    await stage.shows(False, stage.suspended, "next")


@pytest.mark.parametrize(
    "obj",
    [pod("bad"), member("bad"), serving(DEPLOYMENTS, "bad"), serving(STATEFUL_SETS, "bad")],
    ids=["Pod", "PodGroup", "Deployment", "StatefulSet"],
)
def test_an_impossible_queue_name_is_rejected_with_its_path(server: Hooked, obj: Json) -> None:
    async def scene(stage: Stage) -> None:
        stage.follow({e.kind: e for e in (PODS, DEPLOYMENTS, STATEFUL_SETS)}[obj["kind"]])
        labels = obj["metadata"]["labels"] | {"kueue.x-k8s.io/queue-name": "NotAName"}
        with pytest.raises(ApiError, match=r"metadata\.labels\[kueue\.x-k8s\.io/queue-name\]"):
            await stage.apply(obj | {"metadata": obj["metadata"] | {"labels": labels}})

    play(server, scene)


def test_pods_that_form_no_group_get_a_reason_and_the_rest_continues(server: Hooked) -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage)
        stage.follow(PODS)
        contradicting, lonely = member("bad-1", of=3), member("lonely")
        lonely["metadata"]["labels"][GROUP] = "lonely"
        await stage.apply(member("bad-0"), contradicting, lonely)
        await stage.holds(lambda: "InvalidPodGroup" in stage.events("Pod", "bad-0"))
        await stage.holds(lambda: "ErrWorkloadCompose" in stage.events("Pod", "lonely"))
        assert [] == stage.workloads()
        await stage.apply(job("next", "4"))
        await stage.shows(False, stage.suspended, "next")

    play(server, scene)
