# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Cluster Autoscaler that keeps the published contract of ProvisioningRequests.

`check-capacity` books capacity that exists, and reports a shortage without giving up.
`best-effort-atomic-scale-up` adds all missing nodes at once, or fails if it may not add so many.
Both first accept a request. A booking expires after ten minutes. Nodes that an atomic request has
added are removed after the request is deleted.
"""

from __future__ import annotations

import asyncio

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import NODES, POD_TEMPLATES, PROVISIONING_REQUESTS, key_of

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
BOOKING_S = 600.0

POOL = "example.com/pool"
"""The label of nodes that belong to one request, and the detail that names it."""


class Autoscaler:
    """Answers requests. A node has room for one pod; `limit` is how many nodes there may be."""

    def __init__(self, client: Client, clock: Clock, limit: int = 100, scale_up_s: float = 60):
        self.limit = limit
        self.scale_up_s = scale_up_s
        self.templates_seen: dict[str, Json] = {}
        self._client = client
        self._clock = clock
        self._requests: Informer[Json] = Informer(client, PROVISIONING_REQUESTS, clock=clock)
        self._changed = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._requests.observe(lambda old, new: self._changed.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._requests.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                for each in list(self._requests.values()):
                    uid = each["metadata"]["uid"]
                    if uid not in self._tasks:
                        self._tasks[uid] = group.create_task(self._serve(each))
                await self._remove_unused()

    async def _serve(self, request: Json) -> None:
        try:
            await self._answered(request)
        except NotFound:
            return  # It was deleted meanwhile.

    async def _answered(self, request: Json) -> None:
        class_name = request["spec"]["provisioningClassName"]
        if class_name not in (CHECK_CAPACITY, ATOMIC):
            return
        for each in request["spec"]["podSets"]:
            name = each["podTemplateRef"]["name"]
            at = Key(request["metadata"]["namespace"], name)
            self.templates_seen[name] = await self._client.get(POD_TEMPLATES, at)
        await self.set_condition(request, "Accepted", "True", "Accepted", "the request is accepted")
        if class_name == ATOMIC:
            await self._scale_up(request)
        else:
            await self._booked(request)

    async def _scale_up(self, request: Json) -> None:
        wanted, exist = pods_of(request), len(await self._nodes())
        eta = f"{wanted} nodes are being added"
        await self.set_condition(request, "Provisioned", "False", "Pending", eta)
        await self._clock.sleep(self.scale_up_s)
        await self._client.get(PROVISIONING_REQUESTS, key_of(request))
        if exist + wanted > self.limit:
            text = f"the node group may have {self.limit} nodes, and {exist + wanted} are needed"
            await self.set_condition(request, "Failed", "True", "CapacityIsNotFound", text)
            return
        pool = request["metadata"]["name"]
        for index in range(wanted):
            made = node(f"{pool}-{index}", pool)
            await self._client.create(NODES, made)
            status = {"status": made["status"]}
            await self._client.patch(NODES, key_of(made), status, subresource="status")
        details = {"status": {"provisioningClassDetails": {"pool": pool}}}
        await self._patch(request, details)
        text = f"{wanted} nodes were added"
        await self.set_condition(request, "Provisioned", "True", "CapacityIsProvisioned", text)
        await self._expire(request)

    async def _booked(self, request: Json) -> None:
        while len(await self._nodes()) < pods_of(request):
            text = f"there is no room for {pods_of(request)} pods"
            await self.set_condition(request, "Provisioned", "False", "CapacityIsNotFound", text)
            await self._clock.sleep(10)
        await self.set_condition(
            request, "Provisioned", "True", "CapacityIsFound", "capacity is booked"
        )
        await self._expire(request)

    async def _expire(self, request: Json) -> None:
        await self._clock.sleep(BOOKING_S)
        text = "the capacity is not guaranteed any more"
        await self.set_condition(request, "BookingExpired", "True", "BookingExpired", text)

    async def _nodes(self) -> list[Json]:
        return (await self._client.list(NODES)).items

    async def _remove_unused(self) -> None:
        """Remove the nodes of requests that do not exist any more."""
        kept = {each["metadata"]["name"] for each in self._requests.values()}
        for each in await self._nodes():
            pool = each["metadata"].get("labels", {}).get(POOL)
            if pool is not None and pool not in kept:
                await self._client.delete(NODES, key_of(each))

    async def set_condition(
        self, request: Json, type_: str, status: str, reason: str, text: str
    ) -> None:
        """Set one condition of the newest state of a request. Raises NotFound."""
        newest = await self._client.get(PROVISIONING_REQUESTS, key_of(request))
        if newest["metadata"]["uid"] != request["metadata"]["uid"]:
            raise NotFound(404, "NotFound", "the request was replaced")
        before = (newest.get("status") or {}).get("conditions") or []
        at = self._clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        made = {"type": type_, "status": status, "reason": reason, "message": text}
        made["lastTransitionTime"] = at
        listed = [*(each for each in before if each["type"] != type_), made]
        await self._patch(request, {"status": {"conditions": listed}})

    async def _patch(self, request: Json, body: Json) -> None:
        key = key_of(request)
        await self._client.patch(PROVISIONING_REQUESTS, key, body, subresource="status")


def pods_of(request: Json) -> int:
    return sum(int(each["count"]) for each in request["spec"]["podSets"])


def node(name: str, pool: str = "") -> Json:
    """A ready node with room for one pod of a CPU. One without a pool is never removed."""
    amounts = {"cpu": "1", "memory": "4Gi", "pods": "1"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    labels = {"kubernetes.io/hostname": name} | ({POOL: pool} if pool else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }
