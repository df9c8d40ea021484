# SPDX-License-Identifier: Apache-2.0
"""Serves history and accounts of the namespaces whose Workloads the viewer may list."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web

from kuota.api.faults import Invalid
from kuota.api.status import bad_request, too_large, unavailable
from kuota.history import api
from kuota.history.address import Address
from kuota.history.connection import HistoryUnavailable
from kuota.history.database import read
from kuota.history.records import JobRecord
from kuota.history.reports import ReportTooLarge, report
from kuota.history.turns import ReportTurns

from .access import flow_of
from .feed import Feed
from .models.teams import current_teams, teams_model
from .models.visible import visible as shown_to
from .responses import answered, forbidden
from .scopes import Namespaces, Scopes, visible
from .viewers import Viewer

T = TypeVar("T")


class Reports:
    """Answers from the records. `clock` returns seconds since the epoch."""

    def __init__(
        self, address: Address, feed: Feed, scopes: Scopes, clock: Callable[[], float]
    ) -> None:
        self._address = address
        self._feed = feed
        self._scopes = scopes
        self._clock = clock
        self._turns = ReportTurns()

    async def history(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with jobs, newest first."""
        return await self._answer(request, viewer, api.Report.JOBS)

    async def usage(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with accounts by team, queue, user or flavor."""
        return await self._answer(request, viewer, api.Report.USAGE)

    async def waste(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with what each team wasted, by cause.

        It depends on the jobs of all teams, and the viewer gets that of readable namespaces.
        """
        question = self._question(request)
        namespace = request.rel_url.query.get("namespace", "")
        self._check(viewer, await self._readable(viewer), namespace)
        place = api.ReportScope(api.Report.WASTE, namespace or None)
        try:
            found = await self._in_turn(viewer, partial(report, self._address, place, question))
        except ReportTooLarge as error:
            raise too_large(str(error)) from None
        readable = await self._readable(viewer)
        items = [each for each in found["items"] if visible(readable, each["group"])]
        return answered(found | {"items": items})

    async def teams(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with series of teams over time. A step is at least a minute."""
        question, query = self._question(request), request.rel_url.query
        length_s = question.period.until - question.period.since
        step_s = _seconds(query.get("step", str(max(60.0, length_s / 100))))
        found = await self.records(viewer, question.period.since, query.get("namespace", ""))
        async with self._feed.viewing():
            current = current_teams(self._feed.state)
        # A year of jobs in small steps takes long enough to delay everything else.
        work = partial(teams_model, found, question.period, step_s, current)
        model = await self._turns.run(flow_of(viewer.user), work)
        readable = await self._readable(viewer)
        return answered(shown_to(model, lambda each: visible(readable, each)))

    async def records(self, viewer: Viewer, since: float, namespace: str = "") -> list[JobRecord]:
        """Return the records that the viewer may read. Raises StatusError."""
        readable = await self._readable(viewer)
        self._check(viewer, readable, namespace)
        return await self._in_turn(viewer, partial(self._found, since, namespace, readable))

    async def _readable(self, viewer: Viewer) -> Namespaces:
        """Return the namespaces whose Workloads the viewer may list."""
        return (await self._scopes.of(viewer.user)).workloads

    def _check(self, viewer: Viewer, readable: Namespaces, namespace: str) -> None:
        if namespace and not visible(readable, namespace):
            raise forbidden(
                f'User "{viewer.user.name}" may not list the workloads of namespace {namespace}'
            )

    async def _in_turn(self, viewer: Viewer, work: Callable[[], T]) -> T:
        """Return the result of work that reads the history. Raises StatusError if it cannot."""
        try:
            return await self._turns.run(flow_of(viewer.user), work)
        except HistoryUnavailable as error:
            message = f"the history cannot be read: {error}"
            raise unavailable(message) from None

    def _found(self, since: float, namespace: str, readable: Namespaces) -> list[JobRecord]:
        if namespace or readable is None:
            return read(self._address, since, namespace or None)
        return [record for each in sorted(readable) for record in read(self._address, since, each)]

    def _question(self, request: web.BaseRequest) -> api.Question:
        try:
            return api.parse_query(dict(request.rel_url.query), self._clock())
        except Invalid as error:
            raise bad_request(str(error)) from None

    async def _answer(
        self, request: web.BaseRequest, viewer: Viewer, report: api.Report
    ) -> web.Response:
        question = self._question(request)
        namespace = request.rel_url.query.get("namespace", "")
        found = await self.records(viewer, question.period.since, namespace)
        place = api.ReportScope(report, namespace or None)
        work = partial(api.document, place, question, found)
        return answered(await self._turns.run(flow_of(viewer.user), work))


def _seconds(text: str) -> float:
    """Return the length of a step. Raises StatusError."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 1 <= found <= 366 * 86_400:
        raise bad_request("step must be a number of seconds, such as 3600")
    return found
