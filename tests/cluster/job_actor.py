# SPDX-License-Identifier: Apache-2.0
"""The job of a story on a server that has the definition of its kind."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from cluster import definitions
from cluster.ground import Real
from cluster.job_kinds import JobStory
from cluster.stage import Stage
from control.objects import flavor, local_queue, queue, workload_class
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.resources import CRDS, Resource

HIGH = {"kueue.x-k8s.io/priority-class": "high"}
FLAVOR = {"pool": "gpu"}


def resource_of(obj: Json) -> Resource:
    group, _, version = obj["apiVersion"].rpartition("/")
    return Resource(group, version, f"{obj['kind'].lower()}s", obj["kind"])


def config(story: JobStory) -> Json:
    return {"integrations": {"frameworks": ["batch/job", story.framework]}}


async def install(stage: Stage, story: JobStory) -> Resource:
    """Install the definitions that the story needs, and follow the kinds."""
    for obj in (story.manifest("any"), *story.companions):
        resource = resource_of(obj)
        await define(stage, resource)
        stage.follow(resource)
    return resource_of(story.manifest("any"))


async def define_all(stage: Stage, operator: str) -> None:
    """Create the definitions of all kinds of an operator."""
    for found in definitions.of_operator(operator):
        spec = found["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        resource = Resource(
            spec["group"], version, names["plural"], names["kind"], namespaced=namespaced
        )
        await define(stage, resource)


async def define(stage: Stage, resource: Resource) -> None:
    """Create the definition of a kind, and return when the kind is served."""
    found = definitions.minimal(resource.group, resource.version, resource.plural, resource.kind)
    if isinstance(stage.ground, Real):
        known = definitions.of_operators()
        if not known:
            pytest.skip("no definitions of operators: run `make kube`")
        found = known[resource.name]
    async with asyncio.timeout(HANG_S):
        while not await _served(stage, resource):
            # A definition that is being deleted still exists: try again.
            with suppress(AlreadyExists):
                await stage.client.create(CRDS, found)
            await asyncio.sleep(0.05)


async def _served(stage: Stage, resource: Resource) -> bool:
    try:
        crd = await stage.client.get(CRDS, Key("", resource.name))
        await stage.client.list(resource)
    except NotFound:
        return False
    return not crd["metadata"].get("deletionTimestamp")


async def furnish(stage: Stage) -> None:
    quotas = [{"name": "cpu", "nominalQuota": "4"}, {"name": "memory", "nominalQuota": "1Gi"}]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "gpu", "resources": quotas}],
    }
    policy = {"withinClusterQueue": "LowerPriority"}
    cq = queue("cq", resourceGroups=[group], preemption=policy)
    await stage.apply(flavor("gpu", nodeLabels=FLAVOR), workload_class("high", 100), cq)
    await stage.apply(local_queue())


class Actor:
    """The job of a story, and its operator."""

    def __init__(self, stage: Stage, story: JobStory, resource: Resource) -> None:
        self._stage, self.story, self._resource = stage, story, resource

    async def create(self) -> None:
        await self._stage.apply(*self.story.companions, self.story.manifest("mine"))

    @property
    def job(self) -> Json:
        return self._stage.get(self._resource, "mine")

    def state(self) -> tuple[bool, Json]:
        """Whether the job is suspended, and what its node selector is."""
        return self.story.suspended(self.job), self.story.node_selector(self.job)

    async def report(self, status: Json) -> None:
        await self._stage.status(self._resource, "mine", status)

    async def delete(self) -> None:
        await self._stage.delete(self._resource, "mine")
