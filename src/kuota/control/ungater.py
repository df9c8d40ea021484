# SPDX-License-Identifier: Apache-2.0
"""Removes the gates of pods of admitted Workloads, using `kuota.bridge.ungate`.

Pods are needed only once a Workload is elastic or placed by topology.
"""

from __future__ import annotations

import asyncio
import contextlib

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.rules.metadata import elastic
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Event
from kuota.bridge.job_pass.slices import chain_name, latest_active
from kuota.bridge.topology_ungate import OffsetInvalid, assigned
from kuota.bridge.ungate import ChecksDisagree, releases
from kuota.bridge.workload_pods import GateRemoval, chain_of, may_release, workload_pod
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.resources import PODS
from kuota.kube.workqueue import RetryLater, WorkQueue

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .effects import EffectSender
from .node_pod_informers import IN_CHAIN

BATCH_S = 0.1
"""Pods that are created within this time are considered together: lower names first."""
PER_POD_S = 0.00025
"""How much longer changes are collected for each pod of a Workload, all of which a pass reads."""
CONCURRENT = 16
"""The number of pods of one Workload that are patched at the same time."""


class Ungater:
    """Reconciles Workloads by chain: the name of the Workload, or of its first slice.

    The response to each write is stored in the informer of pods at once, and after a failed write
    the pod is read before the next pass. So a pass sees all gates that earlier passes removed, and
    never sends more pods to a domain than it was assigned.
    """

    def __init__(
        self, client: Client, cache: ClusterCache, sender: EffectSender, clock: Clock, gates: Gates
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self._client = client
        self._cache = cache
        self._sender = sender
        self._gates = gates
        self._topology = gates.on(Gate.TopologyAwareScheduling)
        self._needed = asyncio.Event()
        self._observing = False
        self._pods = cache.pods
        self._sizes: dict[Key, int] = {}
        """The number of pods of each chain in its last pass."""
        self._unknown: dict[Key, set[Key]] = {}
        """Pods of each chain whose last write has an unknown outcome."""

    def follow(self) -> None:
        """Observe Workloads from now on."""
        self._cache.workloads.observe(self._workload)

    async def run(self) -> None:
        """Wait for the first Workload with gated pods, and observe pods from then on."""
        await self._needed.wait()
        self._pods.need()
        await self._pods.synced.wait()
        # Another process may have removed gates that the watch has not delivered.
        await self._pods.caught_up()
        self._observing = True
        self._pods.observe(self._pod)

    async def reconcile(self, chain: Key) -> None:
        """Remove the gates of the pods that may be scheduled. Raises RetryLater and KubeError."""
        if not self._observing:
            return  # It is added again when the pods are known.
        await self._read_again(chain)
        active = self._active(chain)
        if active is None or not active.true("Admitted") or active.true("Finished"):
            self._sizes.pop(chain, None)
            return
        pods = [workload_pod(each) for each in self._pods.indexed(IN_CHAIN, str(chain))]
        self._sizes[chain] = len(pods)
        is_elastic = elastic(active.json, self._gates)
        try:
            found = releases(active, pods, elastic=is_elastic, topology=self._topology)
        except (ChecksDisagree, OffsetInvalid) as error:
            self._sender.record(Event.about(active.key, "PodsGated", str(error), warning=True))
            raise RetryLater(f"{active.key}: {error}") from error
        await self._send(chain, found)

    async def _send(self, chain: Key, found: list[GateRemoval]) -> None:
        """Patch the pods. All of them are tried; the first failure is raised."""
        failures: list[Exception] = []
        for start in range(0, len(found), CONCURRENT):
            some = found[start : start + CONCURRENT]
            results = await asyncio.gather(*(self._patch(chain, each) for each in some))
            failures += [each for each in results if each is not None]
        if failures:
            raise failures[0]

    async def _patch(self, chain: Key, release: GateRemoval) -> Exception | None:
        """Patch a pod, and return why that failed. What ends the process is raised at once."""
        key = release.pod.key
        self._unknown.setdefault(chain, set()).add(key)
        try:
            self._pods.wrote(await self._client.patch(PODS, key, release.patch))
        except NotFound:
            pass
        except Exception as error:
            return error
        self._known(chain, key)
        return None

    async def _read_again(self, chain: Key) -> None:
        """Read the pods whose last write may or may not have been stored. Raises KubeError."""
        for key in sorted(self._unknown.get(chain, ())):
            with contextlib.suppress(NotFound):
                self._pods.wrote(await self._client.get(PODS, key))
            self._known(chain, key)

    def _known(self, chain: Key, key: Key) -> None:
        left = self._unknown.get(chain, set())
        left.discard(key)
        if not left:
            self._unknown.pop(chain, None)

    def _active(self, chain: Key) -> StoredWorkload | None:
        """Return the Workload whose admission covers the pods of a chain."""
        slices = [each.value for each in self._cache.slices_of(chain)]
        found = [e for e in slices if e is not None and elastic(e.json, self._gates)]
        if found:
            return latest_active(found)
        return self._cache.stored_workload(chain)

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        if new is None and old is not None:
            self._sizes.pop(old.key, None)
        stored = new.value if new is not None else None
        if stored is None or not (
            elastic(stored.json, self._gates) or (self._topology and assigned(stored.obj))
        ):
            return
        self._needed.set()
        if stored.true("Admitted"):
            self.queue.add(Key(stored.key.namespace, chain_name(stored)))

    def _pod(self, old: Json | None, new: Json | None) -> None:
        for pod in (old, new) if may_release(old, new) else ():
            chain = chain_of(pod) if pod is not None else None
            if chain is not None:
                self.queue.add_after(chain, BATCH_S + PER_POD_S * self._sizes.get(chain, 0))
