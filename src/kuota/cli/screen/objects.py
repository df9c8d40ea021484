# SPDX-License-Identifier: Apache-2.0
"""The objects that the screen shows, and details of the job that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kuota.api.base import Json, Key
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.models.workload import workload_model
from kuota.dashboard.shapes import WorkloadModel, WorkloadRow
from kuota.kube.errors import KubeError
from kuota.kube.informer import Informer
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CORE_EVENTS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.observed import ObservedState
from kuota.view.plan import WhyRow
from kuota.view.workload_state import WAITING, preemptor_uid, state, why
from kuota.visibility.reading import read_explanation

if TYPE_CHECKING:
    from ..session import Session

DETAILS_S = 2.0
"""How often Events and the explanation of the open job are read."""


class FollowedObjects:
    """Follows the objects of a namespace, or of all. `changed` is called after every change."""

    def __init__(self, session: Session, where: str | None, changed: Callable[[], None]) -> None:
        self.state = ObservedState()
        self.where = where
        self._session = session
        self._changed = changed
        self._rows: dict[Key, WorkloadRow] = {}
        self._stale: set[Key] = set()
        self._events: list[Json] = []
        self._why: WhyRow | None = None
        self._detailed: Key | None = None
        spaces = {LOCAL_QUEUES: where, PODS: where, WORKLOADS: where}
        kinds = (RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, PODS, WORKLOADS)
        self.informers = [self._informer(each, spaces.get(each)) for each in kinds]
        by_kind = {each.resource: each for each in self.informers}
        self._needed = (by_kind[CLUSTER_QUEUES], by_kind[WORKLOADS])

    @property
    def ready(self) -> bool:
        return all(each.synced.is_set() for each in self._needed)

    @property
    def error(self) -> str:
        """Why what is shown may be outdated; "" if it is not."""
        return next((str(each.error) for each in self._needed if each.error is not None), "")

    def rows(self) -> list[WorkloadRow]:
        """Return a row per workload. Only those that changed are rendered again."""
        for key in self._stale:
            workload = self.state.workloads.get(key)
            if workload is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = self._row(workload)
        self._stale.clear()
        return list(self._rows.values())

    def _row(self, workload: Json) -> WorkloadRow:
        """Return the row. All that is here may be shown, so it names the preemptor."""
        row = workload_row(workload, self.state)
        preemptor = row.preempted_by and self.state.workload_by_uid(preemptor_uid(workload))
        return replace(row, why=why(workload, [preemptor])) if preemptor else row

    def cluster_queues(self) -> list[Json]:
        return list(self.state.objects["ClusterQueue"].values())

    def hidden(self, queue: str) -> int:
        """Return how many pending workloads of a queue the user does not see."""
        if self.where is None:
            return 0
        obj = self.state.objects["ClusterQueue"].get(Key("", queue)) or {}
        pending = (obj.get("status") or {}).get("pendingWorkloads") or 0
        seen = sum(row.cluster_queue == queue and bool(row.order) for row in self.rows())
        return max(0, int(pending) - seen)

    def job(self, key: Key) -> WorkloadModel | None:
        """Return the details of a workload; None if it does not exist."""
        workload = self.state.workloads.get(key)
        if workload is None:
            return None
        known = key == self._detailed
        explanation = self._why if known else None
        events = self._events if known else ()
        model = workload_model(workload, self.state, events=events, why=explanation)
        return replace(model, row=self._row(workload))

    async def follow_details(self, opened: Callable[[], Key | None]) -> None:
        """Read Events and the explanation of the open job until cancelled."""
        while True:
            key = opened()
            if key is not None:
                await self._read_details(key)
            await asyncio.sleep(DETAILS_S if key is not None and key == opened() else 0.1)

    async def _read_details(self, key: Key) -> None:
        workload = self.state.workloads.get(key)
        if workload is None:
            return
        selector = f"involvedObject.name={key.name},involvedObject.kind=Workload"
        try:
            events = await self._session.client.list(
                CORE_EVENTS, key.namespace, field_selector=selector
            )
            explanation = None
            if state(workload) in WAITING:
                explanation, _ = await read_explanation(self._session.client, key)
        except KubeError:
            # The page shows what the Workload itself says, and the next attempt follows soon.
            return
        self._events, self._why, self._detailed = events.items, explanation, key
        self._changed()

    def _informer(self, resource: Resource, namespace: str | None) -> Informer[Json]:
        informer: Informer[Json] = Informer(self._session.client, resource, namespace)

        def observed(old: Json | None, new: Json | None) -> None:
            if new is not None:
                rows = self.state.put(new)
            else:
                assert old is not None
                rows = self.state.drop(resource.kind, key_of(old))
            self._stale |= rows
            self._changed()

        informer.observe(observed)
        return informer
