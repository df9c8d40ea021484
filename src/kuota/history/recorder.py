# SPDX-License-Identifier: Apache-2.0
"""Records the changes of Workloads, each exactly once, in the order of the server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from kuota.api.backoff import Backoff
from kuota.api.base import Json
from kuota.api.workload import Workload
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.decoding import BOOKMARK, DELETED, Event
from kuota.kube.errors import Gone, KubeError
from kuota.kube.requests import PAGE, Selection
from kuota.kube.resources import WORKLOADS

from .database import HistoryFile, Progress
from .records import JobRecord, forgotten, recorded

DAY_S = 86_400.0
RETENTION_S = 400 * DAY_S
"""How long the records of ended jobs are kept: a year, and some weeks to compare with."""
_PAUSE = Backoff(base=100, cap=10_000)
_LOG = logging.getLogger(__name__)


class Recorder:
    """Follows the Workloads of a server and writes a record for each job.

    The watch resumes from the last recorded revision. If the server has compacted it, Workloads
    that no longer exist count as deleted when they were last known to exist.
    """

    def __init__(
        self,
        client: Client,
        open_file: Callable[[], HistoryFile],
        clock: Clock | None = None,
        retention_s: float = RETENTION_S,
    ) -> None:
        self._client = client
        self._open_file = open_file
        self._clock = steady(clock)
        self._retention_s = retention_s
        self._pruned = 0.0

    async def run(self) -> None:
        """Record until cancelled. Raises sqlite3.Error; running it again continues."""
        file = self._open_file()
        try:
            await self._run(file)
        finally:
            file.close()

    async def _run(self, file: HistoryFile) -> None:
        failures = 0
        while True:
            before = file.progress
            try:
                if not before.revision:
                    await self._list(file)
                await self._watch(file)
            except Gone:
                file.write(progress=Progress("", before.at))
            except KubeError as error:
                _LOG.debug("recording the history: %s", error)
            failures = 0 if file.progress != before else failures + 1
            await self._clock.sleep(_PAUSE.wait(failures) / 1000 if failures else 0.0)

    async def _list(self, file: HistoryFile) -> None:
        """Record the current state of all Workloads."""
        last_known, now = file.progress.at, self._now()
        absent = {each.uid: each for each in file.unfinished()}
        revision = ""
        async with aclosing(self._client.pages(WORKLOADS, Selection(), limit=PAGE)) as pages:
            async for page in pages:
                revision = revision or page.revision
                changed = [self._recorded(file, each) for each in page.items]
                file.write(*filter(None, changed), progress=Progress("", last_known))
                for each in page.items:
                    absent.pop(each["metadata"].get("uid"), None)
        gone = [forgotten(each, None, last_known) for each in absent.values()]
        file.write(*gone, progress=Progress(revision, now))

    async def _watch(self, file: HistoryFile) -> None:
        since = file.progress.revision
        changes = self._client.watch(WORKLOADS, since=since, bookmarks=True)
        async with aclosing(changes) as events:
            async for event in events:
                record = None if event.type == BOOKMARK else self._after(file, event)
                found = () if record is None else (record,)
                file.write(*found, progress=Progress(event.revision or since, self._now()))
                self._prune(file)

    def _after(self, file: HistoryFile, event: Event) -> JobRecord | None:
        record = self._recorded(file, event.object)
        if event.type != DELETED:
            return record
        known = record or file.get(event.object["metadata"].get("uid") or "")
        return None if known is None else forgotten(known, _decoded(event.object), self._now())

    def _recorded(self, file: HistoryFile, obj: Json) -> JobRecord | None:
        """Return the new record of a Workload; None if it has not changed."""
        workload = _decoded(obj)
        if workload is None:
            return None
        known = file.get(workload.metadata.uid)
        new = recorded(known, workload, self._now())
        return None if new == known else new

    def _prune(self, file: HistoryFile) -> None:
        now = self._now()
        if now - self._pruned >= DAY_S:
            self._pruned = now
            file.prune(now - self._retention_s)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _decoded(obj: Json) -> Workload | None:
    """Return the Workload; None if it cannot be decoded, in which case it never holds quota."""
    try:
        return msgspec.convert(obj, Workload)
    except msgspec.ValidationError:
        return None
