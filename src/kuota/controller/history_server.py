# SPDX-License-Identifier: Apache-2.0
"""Serves the history beside a cluster's API server, to those who may list the Workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aiohttp import web

from kuota.api.base import Json
from kuota.api.faults import Invalid
from kuota.history import api
from kuota.history.address import Address
from kuota.history.connection import HistoryUnavailable
from kuota.history.reports import HistoryReports, ReportTooLarge
from kuota.kube.access import AccessRequest, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.resources import WORKLOADS
from kuota.visibility.aggregated import AggregatedServer, forbidden
from kuota.visibility.documents import ApiGroup, GroupDocuments, ServedResource, object_schema
from kuota.visibility.responses import ApiResponse, failure, method_not_allowed

_WORDS = ("namespaces", "since", "until", "by", "limit", "every", "step", "job", "user", "uid")


def _schemas(ref: Callable[[str], str]) -> Json:
    text: Json = {"type": "string"}
    items: Json = {"type": "array", "items": {"type": "object"}}
    fields = {"apiVersion": text, "kind": text, "since": text, "until": text, "items": items}
    return {kind: object_schema(**fields) for kind in api.KINDS.values()}


GROUP = ApiGroup(
    name=api.GROUP,
    versions=(api.VERSION,),
    resources=tuple(
        ServedResource(report.value, kind, True, words=_WORDS) for report, kind in api.KINDS.items()
    ),
    schemas=_schemas,
    package="dev.kuota.history",
)


class HistoryServer(AggregatedServer):
    """Responds with reports. Reading a namespace requires permission to list its Workloads."""

    def __init__(self, address: Address, client: Client, clock: Clock) -> None:
        super().__init__(client, clock)
        self._documents = GroupDocuments((GROUP,))
        self._reports = HistoryReports(address, lambda: clock.now().timestamp())

    async def respond(
        self, user: UserInfo, request: web.BaseRequest, path: str
    ) -> ApiResponse | web.StreamResponse:
        query = dict(request.query)
        place = api.parse_scope(path, query)
        for access in _needed(request, place):
            if not await self.allows(user, access):
                return forbidden(user, access)
        refused = method_not_allowed(request.method)
        if refused is not None:
            return refused
        if place is None:
            return self._document(path, request.headers.get("Accept", ""))
        try:
            return ApiResponse(
                status=200, body=await self._reports.document(user.name, place, query)
            )
        except Invalid as error:
            return failure(400, "BadRequest", str(error))
        except HistoryUnavailable as error:
            message = f"the history cannot be read: {error}"
            return failure(503, "ServiceUnavailable", message)
        except ReportTooLarge as error:
            return failure(413, "RequestEntityTooLarge", str(error))

    def _document(self, path: str, accept: str) -> ApiResponse:
        """Return a discovery or OpenAPI document."""
        found = self._documents.find(path, accept)
        if found is None:
            return failure(404, "NotFound", "the server could not find the requested resource")
        body, content_type = found
        return ApiResponse(status=200, body=body, content_type=content_type)


def _needed(request: web.BaseRequest, place: api.ReportScope | None) -> Iterator[AccessRequest]:
    """Yield all that the caller must be allowed to do."""
    if place is None:
        verb = "get" if request.method == "HEAD" else request.method.lower()
        yield AccessRequest(verb=verb, path=request.rel_url.raw_path)
        return
    for namespace in place.namespaces or ("",):
        yield AccessRequest(
            verb="list",
            group=WORKLOADS.group,
            version=WORKLOADS.version,
            resource=WORKLOADS.plural,
            namespace=namespace,
        )
