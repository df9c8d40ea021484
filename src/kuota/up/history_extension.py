# SPDX-License-Identifier: Apache-2.0
"""Serves the history of jobs to users who may list the Workloads of the namespace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from kuota.api.base import Json
from kuota.api.faults import Invalid
from kuota.api.kueue import GROUP as KUEUE
from kuota.api.status import StatusError, bad_request, not_allowed
from kuota.history import api
from kuota.history.address import Address
from kuota.history.connection import HistoryUnavailable
from kuota.history.reports import ReportTooLarge, report
from kuota.history.turns import ReportTurns
from kuota.server.auth import AccessAttributes
from kuota.server.requests import Request, Response
from kuota.server.status import no_such_path


class HistoryExtension:
    """A `kuota.server.api.Extension` for a history."""

    prefix = api.PREFIX

    def __init__(self, address: Address, clock: Callable[[], float]) -> None:
        self._address = address
        self._clock = clock
        self._turns = ReportTurns()

    def access(self, request: Request) -> AccessAttributes:
        place = api.parse_path(request.path)
        if place is None:
            return AccessAttributes(verb="get", path=request.path)
        return AccessAttributes(
            verb="list", group=KUEUE, resource="workloads", namespace=place.namespace or ""
        )

    async def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("the history can only be read")
        place = api.parse_path(request.path)
        if place is None:
            raise no_such_path()
        try:
            question = api.parse_query(request.query, self._clock())
        except Invalid as error:
            raise bad_request(str(error)) from None
        # Reading a year of jobs takes long enough to delay other requests.
        work = partial(self._document, place, question)
        body = await self._turns.run(request.user.flow, work)
        return Response(200, msgspec.json.encode(body))

    def _document(self, place: api.ReportScope, question: api.Question) -> Json:
        try:
            return report(self._address, place, question)
        except HistoryUnavailable as error:
            message = f"the history cannot be read: {error}"
            raise StatusError(503, "ServiceUnavailable", message) from None
        except ReportTooLarge as error:
            raise StatusError(413, "RequestEntityTooLarge", str(error)) from None
