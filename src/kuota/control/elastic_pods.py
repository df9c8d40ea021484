# SPDX-License-Identifier: Apache-2.0
"""Releases gated pods of elastic jobs, using `kuota.bridge.ungate`.

Pods are needed only once there is an elastic Workload.
"""

from __future__ import annotations

import asyncio

from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.podset import SLICE_ANNOTATION, WORKLOAD_ANNOTATION
from kuota.api.rules.metadata import annotation, elastic, label
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.injections import POD_SET_LABEL
from kuota.bridge.job_pass.slices import chain_name, latest_active
from kuota.bridge.ungate import ChecksDisagree, elastic_pod, releases
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.resources import PODS, key_of
from kuota.kube.workqueue import RetryLater, WorkQueue

from .cached_object import CachedObject
from .workload_indexes import CHAIN
from .world import World

BATCH_S = 0.1
"""Pods that are created within this time are considered together: lower names first."""


class ElasticPods:
    """Reconciles chains of slices. A chain is identified by the name of its first slice.

    The response to each write is stored in the informer of pods at once. So a pass sees the pods
    that earlier passes have released, and never releases more than the slice has.
    """

    def __init__(self, client: Client, world: World, clock: Clock, gates: Gates) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self._client = client
        self._world = world
        self._gates = gates
        self._needed = asyncio.Event()
        self._observing = False
        self._pods = world.pods

    def follow(self) -> None:
        """Observe Workloads from now on."""
        self._world.workloads.observe(self._workload)

    async def run(self) -> None:
        """Wait for the first elastic Workload, then for pods, and observe them from then on."""
        await self._needed.wait()
        self._pods.need()
        await self._pods.synced.wait()
        self._pods.add_index(CHAIN, _chains)
        self._pods.observe(self._pod)
        self._observing = True

    async def reconcile(self, chain: Key) -> None:
        """Release the pods of one chain for which it has quota. Raises RetryLater."""
        if not self._observing:
            return  # It is added again when the pods are known.
        active = latest_active(self._slices(chain))
        if active is None or not active.true("Admitted"):
            return
        pods = [elastic_pod(each) for each in self._pods.indexed(CHAIN, str(chain))]
        try:
            found = releases(active, pods)
        except ChecksDisagree as error:
            raise RetryLater(f"{active.key}: {error}") from error
        for each in found:
            try:
                self._pods.wrote(await self._client.patch(PODS, each.key, each.body))
            except NotFound:
                continue

    def _slices(self, chain: Key) -> list[StoredWorkload]:
        cached = self._world.slices_of(chain)
        values = (each.value for each in cached)
        return [each for each in values if each is not None and elastic(each.json, self._gates)]

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        stored = new.value if new is not None else None
        if stored is not None and elastic(stored.json, self._gates):
            self._needed.set()
            self.queue.add(Key(stored.key.namespace, chain_name(stored)))

    def _pod(self, old: Json | None, new: Json | None) -> None:
        for each in (old, new):
            chain = _chain(each) if each is not None else None
            if chain is not None and self._world.slices_of(chain):
                self.queue.add_after(chain, BATCH_S)


def _chain(pod: Json) -> Key | None:
    """Return the chain of an admitted pod."""
    if not label(pod, POD_SET_LABEL):
        return None
    name = annotation(pod, SLICE_ANNOTATION) or annotation(pod, WORKLOAD_ANNOTATION)
    return Key(key_of(pod).namespace, name) if name else None


def _chains(pod: Json) -> list[str]:
    chain = _chain(pod)
    return [str(chain)] if chain is not None else []
