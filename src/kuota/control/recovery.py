# SPDX-License-Identifier: Apache-2.0
"""Deletes pods on unreachable nodes, using `kuota.bridge.recovery`, if the gate is enabled."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

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


class PodRecovery:
    """Watches pods and nodes with its own informers; no other controller needs them."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pods = Informer(client, PODS, decode=partial(msgspec.convert, type=Pod), clock=clock)
        self._nodes = Informer(
            client, NODES, decode=partial(msgspec.convert, type=Node), clock=clock
        )
        self._pods.observe(self._pod)
        self._nodes.observe(self._node)

    async def run(self) -> None:
        """Watch and reconcile until cancelled."""
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
        """Start nothing more."""
        self._queue.close()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one pod. Returns the seconds until the next pass, if any."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        node = self._nodes.get(Key("", pod.spec.node_name)) if pod.spec.node_name else None
        found = recovery(pod, node, self._clock.now().timestamp())
        if not found.delete:
            return found.requeue_after_s
        meta = pod.metadata
        try:
            if found.status:
                version = {"resourceVersion": meta.resource_version}
                body = {"status": found.status, "metadata": version}
                await self._client.patch(PODS, key, body, subresource="status")
            await self._client.delete(PODS, key, uid=meta.uid, grace_s=0)
        except NotFound:
            return None
        named = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        about = {"apiVersion": "v1", "kind": "Pod", "metadata": named}
        self._recorder.record(about, REASON, found.note, warning=True)
        return None

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and concerned(new):
            self._queue.add(new.key)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is None or not unreachable(new):
            return
        for pod in list(self._pods.values()):
            if pod.spec.node_name == new.key.name and concerned(pod):
                self._queue.add(pod.key)
