# SPDX-License-Identifier: Apache-2.0
"""The policy that rejects work without a queue, evaluated by the embedded server.

`tests/cluster/test_kube_policy.py` applies the same policy to a real API server.
"""

from __future__ import annotations

import asyncio

import pytest

from install.unqueued_work import ALLOWED, DENIED, MANAGED, UNQUEUED_PODS, Attempt
from kuota.install.configuration import CONFIG, configuration
from kuota.install.objects import objects, resource_of
from kuota.install.queue_policy import queue_policy
from kuota.install.settings import Settings
from kuota.kube.client import Client
from kuota.kube.errors import Forbidden
from kuota.kube.resources import NAMESPACES, key_of
from kuota.server.api import ApiServer
from kuota.server.auth import TEAM
from kuota.server.requests import User
from kuota.server.store import Store
from kuota.up.local import LocalTransport, local_client

_SERVED = ("Job", "CronJob", "Pod")


def _attempted(attempt: Attempt, config: str = CONFIG) -> None:
    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        await api.start()
        try:
            admin = local_client(api)
            for namespace in (MANAGED, "kueue-system"):
                labels = {TEAM: "team"}
                await admin.create(NAMESPACES, {"metadata": {"name": namespace, "labels": labels}})
            for each in queue_policy(Settings(queue_name_policy=True, config=config)):
                await admin.create(resource_of(each), each)
            # Membership in the team is what authorizes the attempt; the policy then decides.
            groups = (*attempt.groups, "team", "system:authenticated")
            client = Client(LocalTransport(api, User(attempt.user, groups)))
            await client.create(attempt.resource, attempt.object)
        finally:
            await api.close()
            store.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "attempt", [each for each in DENIED if each.resource.kind in _SERVED], ids=str
)
def test_work_without_a_queue_is_denied(attempt: Attempt) -> None:
    with pytest.raises(Forbidden, match="kueue-queue-name-required"):
        _attempted(attempt)


@pytest.mark.parametrize(
    "attempt", [each for each in ALLOWED if each.resource.kind in _SERVED], ids=str
)
def test_other_work_is_allowed(attempt: Attempt) -> None:
    _attempted(attempt)


@pytest.mark.parametrize("attempt", UNQUEUED_PODS, ids=str)
def test_pods_are_denied_if_they_cannot_be_queued(attempt: Attempt) -> None:
    with pytest.raises(Forbidden, match="objects of this kind are not queued"):
        _attempted(attempt, configuration(["batch/job", "deployment"]))


def test_an_owner_that_is_added_later_is_denied() -> None:
    async def story() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        await api.start()
        try:
            admin = local_client(api)
            meta = {"name": MANAGED, "labels": {TEAM: "team"}}
            await admin.create(NAMESPACES, {"metadata": meta})
            for each in queue_policy(Settings(queue_name_policy=True)):
                await admin.create(resource_of(each), each)
            ann = Client(LocalTransport(api, User("ann", ("team", "system:authenticated"))))
            (queued,) = (each for each in ALLOWED if each.name == "a Job with a queue")
            made = await ann.create(queued.resource, queued.object)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "1"}
            body = {"metadata": {"ownerReferences": [owner | {"controller": True}]}}
            with pytest.raises(Forbidden, match="remove the reference"):
                await ann.patch(queued.resource, key_of(made), body)
            await ann.patch(queued.resource, key_of(made), {"metadata": {"labels": {"a": "b"}}})
        finally:
            await api.close()
            store.close()

    asyncio.run(story())


def test_the_policy_is_part_of_an_installation_only_on_request() -> None:
    kinds = {
        each: [made["kind"] for made in objects(Settings(queue_name_policy=each))]
        for each in (False, True)
    }
    assert "ValidatingAdmissionPolicy" not in kinds[False]
    assert "ValidatingAdmissionPolicy" in kinds[True]
