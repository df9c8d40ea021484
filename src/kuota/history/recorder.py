# SPDX-License-Identifier: Apache-2.0
"""Records the changes of Workloads, each exactly once, in the order of the server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from kuota.api.backoff import Backoff
from kuota.api.base import Json
from kuota.api.workload import Workload
from kuota.bridge.variants import parent_of
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.decoding import BOOKMARK, DELETED, WatchEvent
from kuota.kube.errors import Gone, KubeError
from kuota.kube.requests import PAGE, Selection
from kuota.kube.resources import WORKLOADS

from .address import Address
from .calls import Calls, direct
from .database import HistoryWriter, RecordingProgress, Superseded
from .records import JobRecord, forgotten, recorded

DAY_S = 86_400.0
RETENTION_S = 400 * DAY_S
"""How long the records of ended jobs are kept: a year, and some weeks to compare with."""
_PAUSE = Backoff(base=100, cap=10_000)
_LOG = logging.getLogger(__name__)


class HistoryRecorder:
    """Follows the Workloads of a server and writes a record for each job.

    The watch resumes from the last recorded revision. If the server has compacted it, Workloads
    that no longer exist count as deleted when they were last known to exist. Without `authors`,
    nobody ensures that annotations name the authors of jobs, so no users are recorded.
    """

    def __init__(
        self,
        client: Client,
        address: Address,
        clock: Clock | None = None,
        retention_s: float = RETENTION_S,
        calls: Calls = direct,
        *,
        authors: bool = True,
    ) -> None:
        self._authors = authors
        self._client = client
        self._address = address
        self._clock = steady(clock)
        self._retention_s = retention_s
        self._calls = calls
        self._pruned = 0.0

    async def run(self) -> None:
        """Record until cancelled. Raises HistoryUnavailable; running it again continues."""
        writer = await self._calls(partial(HistoryWriter, self._address))
        try:
            await self._run(writer)
        finally:
            await self._calls(writer.close)

    async def _run(self, writer: HistoryWriter) -> None:
        failures = 0
        while True:
            before = writer.progress
            try:
                if not before.revision:
                    await self._list(writer)
                await self._watch(writer)
            except Gone:
                unknown = RecordingProgress("", writer.progress.at)
                await self._calls(partial(writer.write, progress=unknown))
            except KubeError as error:
                _LOG.debug("recording the history: %s", error)
            except Superseded:
                _LOG.info("another process records the history; continuing where it is")
                await self._calls(writer.refresh)
            failures = 0 if writer.progress != before else failures + 1
            await self._clock.sleep(_PAUSE.wait(failures) / 1000 if failures else 0.0)

    async def _list(self, writer: HistoryWriter) -> None:
        """Record the current state of all Workloads."""
        last_known, now = writer.progress.at, self._now()
        absent = {each.uid: each for each in await self._calls(writer.unfinished)}
        revision, items = "", list[Json]()
        async with aclosing(self._client.pages(WORKLOADS, Selection(), limit=PAGE)) as pages:
            async for page in pages:
                revision = revision or page.revision
                if items:
                    partly = RecordingProgress("", last_known)
                    await self._calls(partial(self._write_list, writer, items, (), partly))
                items = page.items
                for each in page.items:
                    absent.pop(each["metadata"].get("uid"), None)
        gone = [forgotten(each, None, last_known) for each in absent.values()]
        # With the last page, because a record without a revision would miss the end of its job.
        progress = RecordingProgress(revision, now)
        await self._calls(partial(self._write_list, writer, items, gone, progress))

    def _write_list(
        self,
        writer: HistoryWriter,
        items: Sequence[Json],
        gone: Sequence[JobRecord],
        progress: RecordingProgress,
    ) -> None:
        changed = [self._recorded(writer, each) for each in items]
        writer.write(*filter(None, changed), *gone, progress=progress)

    async def _watch(self, writer: HistoryWriter) -> None:
        changes = self._client.watch(WORKLOADS, since=writer.progress.revision, bookmarks=True)
        async with aclosing(changes) as events:
            async for event in events:
                await self._calls(partial(self._write_event, writer, event))

    def _write_event(self, writer: HistoryWriter, event: WatchEvent) -> None:
        record = None if event.type == BOOKMARK else self._after(writer, event)
        found = () if record is None else (record,)
        revision = event.revision or writer.progress.revision
        writer.write(*found, progress=RecordingProgress(revision, self._now()))
        now = self._now()
        if now - self._pruned >= DAY_S:
            self._pruned = now
            writer.prune(now - self._retention_s)

    def _after(self, writer: HistoryWriter, event: WatchEvent) -> JobRecord | None:
        record = self._recorded(writer, event.object)
        if event.type != DELETED:
            return record
        known = record or writer.get(event.object["metadata"].get("uid") or "")
        return None if known is None else forgotten(known, _decoded(event.object), self._now())

    def _recorded(self, writer: HistoryWriter, obj: Json) -> JobRecord | None:
        """Return the new record of a Workload; None if it has not changed."""
        workload = _decoded(obj)
        if workload is None:
            return None
        known = writer.get(workload.metadata.uid)
        new = recorded(known, workload, self._now())
        if known is None and not self._authors:
            new = msgspec.structs.replace(new, user="")
        return None if new == known else new

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _decoded(obj: Json) -> Workload | None:
    """Return the Workload; None if it has no record of its own.

    One that cannot be decoded never holds quota. A variant is counted by its parent.
    """
    try:
        workload = msgspec.convert(obj, Workload)
    except msgspec.ValidationError:
        return None
    return workload if parent_of(workload.metadata) is None else None
