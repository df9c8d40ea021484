# SPDX-License-Identifier: Apache-2.0
"""Serves history and accounts of the namespaces whose Workloads the viewer may list."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from kuota.history.api import Report
from kuota.history.series import SeriesReport

from .feed import Feed
from .models.teams import current_teams, teams_model
from .models.visible import visible as shown_to
from .responses import answered, forbidden
from .scopes import Namespaces, Scopes, visible
from .viewer_history import ViewerHistory
from .viewers import Viewer


class Reports:
    """Answers from the history. All methods raise StatusError and KubeError."""

    def __init__(self, history: ViewerHistory, feed: Feed, scopes: Scopes) -> None:
        self._history = history
        self._feed = feed
        self._scopes = scopes

    async def history(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with jobs, newest first."""
        return answered(await self._read(request, viewer, Report.JOBS))

    async def usage(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with accounts by team, queue, user or flavor."""
        return answered(await self._read(request, viewer, Report.USAGE))

    async def waste(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with what each team wasted, by cause."""
        return answered(await self._read(request, viewer, Report.WASTE))

    async def teams(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Respond with series of teams over time, and with their current quota."""
        found = await self._read(request, viewer, Report.SERIES)
        async with self._feed.viewing():
            current = current_teams(self._feed.state)
        model = teams_model(msgspec.convert(found, SeriesReport), current)
        readable = await self._readable(viewer)
        return answered(shown_to(model, lambda each: visible(readable, each)))

    async def _read(
        self, request: web.BaseRequest, viewer: Viewer, report: Report
    ) -> dict[str, Any]:
        query = dict(request.rel_url.query)
        # Only the viewer's permissions choose the namespaces.
        query.pop("namespaces", None)
        wanted = query.pop("namespace", "")
        readable = await self._readable(viewer)
        if wanted and not visible(readable, wanted):
            raise _may_not_list(viewer, f"of namespace {wanted}")
        if readable is not None and not readable:
            raise _may_not_list(viewer, "of any namespace that has a LocalQueue")
        names = frozenset({wanted}) if wanted else readable
        return await self._history.report(viewer.credential, report, names, query)

    async def _readable(self, viewer: Viewer) -> Namespaces:
        """Return the namespaces whose Workloads the viewer may list."""
        return (await self._scopes.of(viewer.user)).workloads


def _may_not_list(viewer: Viewer, which: str) -> Exception:
    return forbidden(f'User "{viewer.user.name}" may not list the workloads {which}')
