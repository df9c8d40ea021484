# SPDX-License-Identifier: Apache-2.0
"""Serves the history of jobs to users who may list the Workloads of the namespace."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kuota.api.faults import Invalid
from kuota.api.kueue import GROUP as KUEUE
from kuota.api.status import StatusError, bad_request, not_allowed, too_large, unavailable
from kuota.history import api
from kuota.history.address import Address
from kuota.history.connection import HistoryUnavailable
from kuota.history.reports import HistoryReports, ReportTooLarge
from kuota.server.auth import AccessAttributes, Roles, refusal
from kuota.server.requests import Request, Response
from kuota.server.status import no_such_path


class HistoryExtension:
    """A `kuota.server.api.Extension` for a history."""

    prefix = api.PREFIX

    def __init__(self, address: Address, clock: Callable[[], float], roles: Roles) -> None:
        self._reports = HistoryReports(address, clock)
        self._roles = roles

    def access(self, request: Request) -> AccessAttributes:
        """Everyone with credentials may ask. A report may need access to several namespaces."""
        return AccessAttributes(verb="get", path=request.path)

    async def answer(self, request: Request) -> Response:
        place = api.parse_scope(request.path, request.query)
        if place is not None:
            self._authorize(request, place)
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("the history can only be read")
        if place is None:
            raise no_such_path()
        try:
            body = await self._reports.document(request.user.flow, place, request.query)
        except Invalid as error:
            raise bad_request(str(error)) from None
        except HistoryUnavailable as error:
            raise unavailable(f"the history cannot be read: {error}") from None
        except ReportTooLarge as error:
            raise too_large(str(error)) from None
        return Response(200, msgspec.json.encode(body))

    def _authorize(self, request: Request, place: api.ReportScope) -> None:
        """Raise StatusError unless the user may list the Workloads of all namespaces in scope."""
        for namespace in place.namespaces or ("",):
            access = AccessAttributes(
                verb="list", group=KUEUE, resource="workloads", namespace=namespace
            )
            if not self._roles.allows(request.user, access):
                message = f"forbidden: {refusal(request.user, access)}"
                raise StatusError(403, "Forbidden", message)
