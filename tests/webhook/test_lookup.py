# SPDX-License-Identifier: Apache-2.0
"""Lookups of reviews: by requests at first, and from caches once they have synced."""

from __future__ import annotations

import asyncio

from control.fake_api import FakeApi
from control.objects import job, local_queue, namespace
from kube.virtual_time import VirtualClock, run, settled
from kuota.api.base import Json, Key
from kuota.kube.resources import JOBS, LOCAL_QUEUES, NAMESPACES, Resource
from kuota.webhook.lookup import InformerLookup
from webhook.reviews import Objects, answered
from webhook.reviews import job as review_job

MUTATE = "/mutate-batch-v1-job"
DEFAULT = Key("team", "default")


class Counting(FakeApi):
    """Counts how often it is asked for one object."""

    asked = 0

    async def get(self, resource: Resource, key: Key) -> Json:
        self.asked += 1
        return await super().get(resource, key)


def test_before_the_caches_are_full_the_server_is_asked() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = Counting(clock)
        await api.create(LOCAL_QUEUES, local_queue("default"))
        following = InformerLookup(api, clock)
        assert await following.find(LOCAL_QUEUES, DEFAULT) is not None
        assert await following.find(LOCAL_QUEUES, Key("team", "other")) is None
        assert (2, False) == (api.asked, following.synced)

    run(clock, story())


def test_full_caches_answer_for_what_is_there_and_for_what_is_not() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = Counting(clock)
        await api.create(NAMESPACES, namespace("team", a="b"))
        following = InformerLookup(api, clock)
        task = asyncio.create_task(following.run())
        await settled()
        assert following.synced
        found = await following.find(NAMESPACES, Key("", "team"))
        assert found is not None
        assert "b" == found["metadata"]["labels"]["a"]
        assert await following.find(LOCAL_QUEUES, DEFAULT) is None
        await api.create(LOCAL_QUEUES, local_queue("default"))
        await settled()
        assert await following.find(LOCAL_QUEUES, DEFAULT) is not None
        assert 0 == api.asked
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, story())


def test_a_namespace_that_the_cache_does_not_have_yet_is_asked_for() -> None:
    """A Job may arrive right after its namespace, and must not count as unmanaged."""
    clock = VirtualClock()

    async def story() -> None:
        api = Counting(clock)
        following = InformerLookup(api, clock)
        task = asyncio.create_task(following.run())
        await settled()
        assert following.synced
        await api.create(NAMESPACES, namespace("new", a="b"))
        found = await following.find(NAMESPACES, Key("", "new"))  # Before the watch delivers it.
        assert found is not None
        assert "b" == found["metadata"]["labels"]["a"]
        assert 1 == api.asked
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, story())


def test_jobs_are_not_cached_but_asked_for() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = Counting(clock)
        await api.create(JOBS, job("j"))
        following = InformerLookup(api, clock)
        assert await following.find(JOBS, Key("team", "j")) is not None
        assert 1 == api.asked

    run(clock, story())


def test_a_question_is_answered_by_fetching_each_object_once() -> None:
    asked: list[tuple[str, str]] = []

    class RecordingLookup(Objects):
        async def find(self, resource: Resource, key: Key) -> Json | None:
            asked.append((resource.plural, key.name))
            return await super().find(resource, key)

    objects = RecordingLookup({("localqueues", "q"): {"spec": {"clusterQueue": "cq"}}})
    assert answered(MUTATE, review_job(queue="q"), objects=objects).object["spec"]["suspend"]
    # A job that names its queue needs neither its namespace nor the default queue.
    wanted = [("workloadpriorityclasses", "default"), ("localqueues", "q"), ("clusterqueues", "cq")]
    assert wanted == asked
