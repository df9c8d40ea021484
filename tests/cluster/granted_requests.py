# SPDX-License-Identifier: Apache-2.0
"""A ProvisioningRequest from creation to deletion, by a controller with the roles that it ships."""

from __future__ import annotations

import asyncio

from cluster.audited import create, until
from cluster.definitions import of_operators
from control.objects import check, job, local_queue, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import NotFound
from kuota.kube.resources import JOBS, POD_TEMPLATES, PROVISIONING_REQUESTS, key_of


async def nodes_are_requested(client: Client) -> None:
    """A request is created and, after it has failed, deleted; without its definition, nothing."""
    definition = of_operators().get(PROVISIONING_REQUESTS.name)
    if definition is None:
        return
    await create(client, definition)
    api = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    config = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "nodes"}
    spec = {"provisioningClassName": "example.com"}
    await create(
        client, api | {"kind": config["kind"], "metadata": {"name": "nodes"}, "spec": spec}
    )
    made = check("nodes", "kueue.x-k8s.io/provisioning-request")
    made["spec"]["parameters"] = config
    checks = {"admissionChecks": [{"name": "nodes"}]}
    await create(client, made, queue("growing", 1, admissionChecksStrategy=checks))
    await create(client, local_queue("growing", "growing"), job("third", queue="growing"))
    async with asyncio.timeout(HANG_S):
        while not (found := (await _requests(client))):
            await asyncio.sleep(0.1)
        owned = Key("team", found[0]["spec"]["podSets"][0]["podTemplateRef"]["name"])
        await until(client, POD_TEMPLATES, owned, _belongs_to_request)
        failed = {"type": "Failed", "status": "True", "reason": "Failed", "message": "no"}
        failed["lastTransitionTime"] = "2026-01-02T03:04:05Z"
        body = {"status": {"conditions": [failed]}}
        await client.patch(PROVISIONING_REQUESTS, key_of(found[0]), body, subresource="status")
        while await _requests(client):
            await asyncio.sleep(0.1)
    await client.delete(JOBS, Key("team", "third"), propagation="Background")


async def _requests(client: Client) -> list[Json]:
    try:
        return (await client.list(PROVISIONING_REQUESTS, "team")).items
    except NotFound:
        return []


def _belongs_to_request(template: Json) -> bool:
    owners = [each["kind"] for each in template["metadata"]["ownerReferences"]]
    return owners == [PROVISIONING_REQUESTS.kind]
