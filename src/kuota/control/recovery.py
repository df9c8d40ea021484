# SPDX-License-Identifier: Apache-2.0
"""Deletes pods on unreachable nodes, using `kuota.bridge.recovery`, if the gate is enabled."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import Node, Pod
from kuota.api.rules.metadata import annotation
from kuota.bridge.recovery import REASON, SAFE_TO_DELETE, is_recoverable, recovery, unreachable
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.events import Recorder
from kuota.kube.resources import PODS, key_of
from kuota.kube.workqueue import WorkQueue, serve

from .cluster_cache import ClusterCache
from .node_pod_informers import ON_NODE


class PodRecovery:
    """Reads the pods and nodes of `cache`, which are needed from the beginning."""

    def __init__(
        self, client: Client, cache: ClusterCache, recorder: Recorder, clock: Clock
    ) -> None:
        self._client = client
        self._pods, self._nodes = cache.pods, cache.nodes
        self._recorder = recorder
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            self._pods.need()
            self._nodes.need()
            await self._pods.synced.wait()
            await self._nodes.synced.wait()
            self._pods.observe(self._pod)
            self._nodes.observe(self._node)
            await serve(self._queue, self.reconcile)
        finally:
            self.close()

    def close(self) -> None:
        """Start nothing more."""
        self._queue.close()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one pod. Returns the seconds until the next pass, if any."""
        cached = self._pods.get(key)
        if cached is None:
            return None
        pod = msgspec.convert(cached, Pod)
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

    def _pod(self, old: Json | None, new: Json | None) -> None:
        if new is not None and _is_recoverable(new):
            self._queue.add(key_of(new))

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is None or not unreachable(new):
            return
        for pod in self._pods.indexed(ON_NODE, new.key.name):
            if _is_recoverable(pod):
                self._queue.add(key_of(pod))


def _is_recoverable(pod: Json) -> bool:
    if annotation(pod, SAFE_TO_DELETE) != "true":
        return False
    try:
        return is_recoverable(msgspec.convert(pod, Pod))
    except ValueError as error:
        report("translation", error, f"pod {key_of(pod)} cannot be translated; it is not deleted")
        return False
