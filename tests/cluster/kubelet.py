# SPDX-License-Identifier: Apache-2.0
"""Replaces scheduler and kubelet: pods run immediately and end when the test says so.

It handles all pods that do not name another scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kuota.api.base import Json, Key
from kuota.api.quantity import units
from kuota.api.topology_codec import HOSTNAME
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.errors import AlreadyExists, Conflict, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import NODES, PODS, key_of
from kuota.kube.workqueue import WorkQueue, serve

NODE = "stand-in"
WORKERS = 8
AGAIN_S = 0.5
_OVER = ("Succeeded", "Failed")


class Kubelet:
    """`ready` says whether pods that start become ready, `brief` whether they succeed at once.

    Without `runs`, another program runs the pods, and this one only watches them.

    `changed` is called whenever any pod is seen to change.
    """

    def __init__(self, client: Client, changed: Callable[[], None], *, binds: bool = True) -> None:
        self.ready = True
        self.runs = True
        self.brief = False
        self.binds = binds
        self.pods: Informer[Json] = Informer(client, PODS)
        self.peak_milli: dict[str, int] = {}
        """The most CPU that pods of a namespace ever asked for at once, those leaving included."""
        self._client = client
        self._changed = changed
        self._holds = False
        self._queue: WorkQueue[Key] = WorkQueue(SystemClock())

    async def run(self) -> None:
        self.pods.observe(self._seen)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pods.run())
            group.create_task(serve(self._queue, self._tend, WORKERS))

    async def node(self, name: str = NODE, **labels: str) -> None:
        """Make a node ready, with room for much."""
        obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        with suppress(AlreadyExists):
            await self._client.create(NODES, obj)
        room = {"cpu": "1000", "memory": "4000Gi", "pods": "10000"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self._client.patch(NODES, Key("", name), {"status": status}, subresource="status")

    def hold(self) -> None:
        """From now on pods that are to go take their time."""
        self._holds = True

    def let_go(self) -> None:
        self._holds = False
        for key in list(self.pods.keys()):
            self._queue.add(key)

    def of(self, job: Key, *phases: str) -> list[Json]:
        """The pods of a Job that are in one of the phases and not on their way out."""
        return [
            each
            for each in self.pods.values()
            if _job(each) == job and _phase(each) in (phases or ("Pending", "Running"))
            if not each["metadata"].get("deletionTimestamp")
        ]

    async def end(self, pods: list[Json], phase: str) -> None:
        """Let pods end by themselves."""
        for pod in pods:
            with suppress(NotFound, Conflict):
                await self._status(pod, _ended(pod, phase))

    async def set_ready(self, pods: list[Json], ready: bool) -> None:
        for pod in pods:
            await self._status(pod, _running(pod, ready))

    def _seen(self, old: Json | None, new: Json | None) -> None:
        pod = new or old
        assert pod is not None
        self._queue.add(key_of(pod))
        space = key_of(pod).namespace
        there = sum(_milli(each) for each in self.pods.values() if key_of(each).namespace == space)
        self.peak_milli[space] = max(self.peak_milli.get(space, 0), there)
        self._changed()

    async def _tend(self, key: Key) -> float | None:
        """Bring a pod one step further. What a server says that has just come back is not trusted:
        a pod that is refused, and still there, is looked at again.
        """
        pod = self.pods.get(key)
        if pod is None:
            return None
        try:
            await self._move(pod)
        except (NotFound, Conflict):
            return AGAIN_S
        return None

    async def _move(self, pod: Json) -> None:
        meta = pod["metadata"]
        if not self.runs:
            return
        if meta.get("deletionTimestamp"):
            if not self._holds:
                await self._leave(pod)
        elif not pod["spec"].get("nodeName"):
            if self.binds and not pod["spec"].get("schedulingGates"):
                await self._bind(pod)
        elif _phase(pod) == "Pending":
            await self._status(pod, _running(pod, self.ready))
        elif _phase(pod) == "Running" and self.brief:
            await self._status(pod, _ended(pod, "Succeeded"))

    async def _leave(self, pod: Json) -> None:
        if _phase(pod) not in _OVER:
            await self._status(pod, _ended(pod, "Failed"))
        if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
            uid = pod["metadata"]["uid"]
            await self._client.delete(PODS, key_of(pod), uid=uid, grace_s=0)

    async def _bind(self, pod: Json) -> None:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": _chosen(pod)},
        }
        await self._client.create(PODS, binding, subresource="binding")

    async def _status(self, pod: Json, status: Json) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._client.patch(PODS, key_of(pod), body, subresource="status")


def _chosen(pod: Json) -> str:
    """Return the node that a pod is bound to: the one that its selector names, if any."""
    return str((pod["spec"].get("nodeSelector") or {}).get(HOSTNAME) or NODE)


def _running(pod: Json, ready: bool) -> Json:
    said = {"type": "Ready", "status": str(ready)}
    container = {"state": {"running": {"startedAt": _created(pod)}}, "ready": ready}
    return {"phase": "Running"} | _parts(pod, said, container)


def _ended(pod: Json, phase: str) -> Json:
    said = {"type": "Ready", "status": "False"}
    code = 0 if phase == "Succeeded" else 1
    over = {"exitCode": code, "startedAt": _created(pod), "finishedAt": _created(pod)}
    container = {"state": {"terminated": over}, "ready": False}
    return {"phase": phase} | _parts(pod, said, container)


def _parts(pod: Json, said: Json, container: Json) -> Json:
    others = [
        each
        for each in (pod.get("status") or {}).get("conditions") or ()
        if each["type"] != "Ready"
    ]
    return {
        "conditions": [*others, said],
        "containerStatuses": [
            {"name": each["name"], "image": each["image"], "imageID": "", "restartCount": 0}
            | container
            for each in _containers(pod)
        ],
    }


def _created(pod: Json) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _job(pod: Json) -> Key | None:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == "Job":
            return Key(pod["metadata"]["namespace"], owner["name"])
    return None


def _milli(pod: Json) -> int:
    if _phase(pod) in _OVER:
        return 0
    asked = [(each.get("resources") or {}).get("requests") or {} for each in _containers(pod)]
    return sum(units(each.get("cpu", "0"), "cpu") for each in asked)


def _containers(pod: Json) -> list[Json]:
    found: list[Json] = pod["spec"]["containers"]
    return found
