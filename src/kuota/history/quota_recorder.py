# SPDX-License-Identifier: Apache-2.0
"""Records how quotas change, so that it is known later whether quota was free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.informer import Informer
from kuota.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES

from .address import Address
from .calls import Calls, direct
from .database import HistoryWriter
from .quotas import QuotaFact, QuotaKind, fact

T = TypeVar("T")

_RESOURCES = {
    QuotaKind.CLUSTER_QUEUE: CLUSTER_QUEUES,
    QuotaKind.COHORT: COHORTS,
    QuotaKind.LOCAL_QUEUE: LOCAL_QUEUES,
}


class QuotaRecorder(Generic[T]):
    """Follows the objects that define quota through informers, which somebody else runs.

    Changes have no timestamp, so they count from the moment of observation. `json` returns the
    object of a value of these informers.
    """

    def __init__(
        self,
        informers: Mapping[QuotaKind, Informer[T]],
        json: Callable[[T], Json],
        address: Address,
        clock: Clock | None = None,
        calls: Calls = direct,
    ) -> None:
        self._informers = informers
        self._json = json
        self._address = address
        self._clock = steady(clock)
        self._calls = calls
        self._changed: asyncio.Queue[QuotaFact] = asyncio.Queue()
        for kind, each in informers.items():
            each.observe(partial(self._observed, kind))

    async def run(self) -> None:
        """Record until cancelled. Raises HistoryUnavailable; running it again continues."""
        writer = await self._calls(partial(HistoryWriter, self._address))
        try:
            for each in self._informers.values():
                await each.synced.wait()
            known = await self._calls(writer.live_quotas)
            await self._calls(partial(writer.write_quotas, self._current(known)))
            while True:
                found = [await self._changed.get()]
                while not self._changed.empty():
                    found.append(self._changed.get_nowait())
                await self._calls(partial(writer.write_quotas, found))
        finally:
            await self._calls(writer.close)

    def _observed(self, kind: QuotaKind, old: T | None, new: T | None) -> None:
        shown = new if new is not None else old
        if shown is not None:
            obj = None if new is None else self._json(new)
            self._changed.put_nowait(fact(kind, _name(self._json(shown)), obj, self._now()))

    def _current(self, known: Iterable[tuple[QuotaKind, str]]) -> list[QuotaFact]:
        """Return facts about all objects, and about known ones that exist no more."""
        now = self._now()
        found = {
            (kind, _name(obj)): fact(kind, _name(obj), obj, now)
            for kind, informer in self._informers.items()
            for obj in map(self._json, informer.values())
        }
        gone = [fact(*each, None, now) for each in known if each not in found]
        return [*found.values(), *gone]

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _name(obj: Json) -> str:
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def quota_informers(client: Client, clock: Clock | None = None) -> dict[QuotaKind, Informer[Json]]:
    """Return informers for a process that has none of these kinds."""
    return {kind: Informer(client, resource, clock=clock) for kind, resource in _RESOURCES.items()}
