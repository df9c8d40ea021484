# SPDX-License-Identifier: Apache-2.0
"""Gives up pods on lost nodes, as `kuota.bridge.recovery` says. Runs only where its gate is on."""

from __future__ import annotations

import asyncio

from kuota.api.base import Key
from kuota.api.core import Node, Pod
from kuota.bridge.recovery import REASON, concerned, recovery, unreachable
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import NODES, PODS
from kuota.kube.workqueue import WorkQueue, serve

from .held import Held, holding


class PodRecovery:
    """Watches pods and nodes by itself: nobody else here needs them."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pods = Informer(client, PODS, decode=holding(Pod), clock=clock)
        self._nodes = Informer(client, NODES, decode=holding(Node), clock=clock)
        self._pods.observe(self._pod)
        self._nodes.observe(self._node)

    async def run(self) -> None:
        """Watch and act until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pods.run())
                group.create_task(self._nodes.run())
                await self._pods.synced.wait()
                await self._nodes.synced.wait()
                group.create_task(serve(self._queue, self.reconcile))
        finally:
            self.close()

    def close(self) -> None:
        """Begin nothing more."""
        self._queue.close()

    async def reconcile(self, key: Key) -> float | None:
        """One look at a pod; the seconds after which to look again."""
        held = self._pods.get(key)
        if held is None or held.value is None:
            return None
        pod = held.value
        node = self._nodes.get(Key("", pod.spec.node_name)) if pod.spec.node_name else None
        found = recovery(
            pod, node.value if node is not None else None, self._clock.now().timestamp()
        )
        if not found.delete:
            return found.again_s
        try:
            if found.status:
                version = {"resourceVersion": held.version}
                body = {"status": found.status, "metadata": version}
                await self._client.patch(PODS, key, body, subresource="status")
            await self._client.delete(PODS, key, uid=held.uid, grace_s=0)
        except NotFound:
            return None
        about = {"apiVersion": "v1", "kind": "Pod"} | held.json
        self._recorder.record(about, REASON, found.note, warning=True)
        return None

    def _pod(self, old: Held[Pod] | None, new: Held[Pod] | None) -> None:
        if new is not None and new.value is not None and concerned(new.value):
            self._queue.add(new.key)

    def _node(self, old: Held[Node] | None, new: Held[Node] | None) -> None:
        if new is None or new.value is None or not unreachable(new.value):
            return
        for held in list(self._pods.values()):
            pod = held.value
            if pod is not None and pod.spec.node_name == new.key.name and concerned(pod):
                self._queue.add(held.key)
