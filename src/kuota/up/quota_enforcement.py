# SPDX-License-Identifier: Apache-2.0
"""Connects everything that enforces quota on one machine: API server, controllers and runner."""

from __future__ import annotations

from msgspec.structs import replace

from kuota.api.base import Json
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.lifecycle_view import LifecycleConfig, managing_all
from kuota.control.system import System
from kuota.server.deletion import PodDeletion
from kuota.server.job_kinds import MOST_REPLICAS
from kuota.server.store import Store

from .charges import charging_hook
from .live_pods import LivePods
from .pod_deletion import MAX_GRACE_S, pod_deletion
from .pod_quota import MOST_PODS, PodQuota
from .quota_rules import QuotaRules, queueing_all, stored_objects


class QuotaEnforcement:
    """What a process holds stays charged until it is gone.

    Pass `lifecycle` and `occupied` to the System, `hook`, `rules` and `deletion` to the API server,
    and `may_create` to the Runner; then call `follow`, and run `run`.
    """

    def __init__(
        self,
        store: Store,
        config: LifecycleConfig,
        *,
        allow_unqueued: bool = False,
        max_grace_s: int = MAX_GRACE_S,
        most_pods: int = MOST_PODS,
    ) -> None:
        # An older version stored sets with more replicas than this server accepts.
        config = replace(managing_all(config), max_replicas=MOST_REPLICAS)
        self.lifecycle = config if allow_unqueued else queueing_all(config)
        self.deletion: PodDeletion = pod_deletion(store, max_grace_s)
        self._live = LivePods(store)
        look_up = stored_objects(store)
        self.hook = charging_hook(look_up, self.lifecycle)
        self._quota = PodQuota(store, self.lifecycle, self._live, look_up, most_pods)
        self.rules = QuotaRules(
            store,
            self.lifecycle,
            self._live,
            self._quota,
            max_grace_s=max_grace_s,
            pods_allowed=allow_unqueued,
        )

    def occupied(self, job: JobKey) -> frozenset[str]:
        """The UIDs of the jobs of this kind and name that may have processes."""
        return self._live.jobs_named(job)

    def may_create(self, job: Json) -> bool:
        """Whether the Job may get another pod."""
        return self._quota.may_create(job)

    def follow(self, system: System) -> None:
        """Read Workloads and flavors from the system, and tell it when pods have ended."""
        cache = system.cache
        self._quota.workloads_of = lambda job: [each.key for each in cache.workloads_of(job)]
        self._quota.flavors = cache.flavor_objects
        known = frozenset(cache.job_caches.kinds())
        self._live.on_end = lambda job: system.pods_ended(job) if job.kind in known else None

    async def run(self) -> None:
        """Follow pods until the store is closed."""
        await self._live.run()
