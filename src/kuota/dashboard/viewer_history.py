# SPDX-License-Identifier: Apache-2.0
"""Reads the history for viewers, through the API server and with their permissions.

The history is read as the viewer. For a viewer whom a proxy named, the dashboard itself reads it,
and only of namespaces about which the API server was asked for this viewer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kuota.api.status import StatusError, too_large, unavailable
from kuota.history.api import Report
from kuota.history.client import NoHistory, read_report
from kuota.history.job_rows import JobRow
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, KubeError

from .access import Credential, ProxiedUser, ViewerAccess
from .responses import not_found
from .scopes import Namespaces

LOOKUP_S = 2.0
"""How long the page of a workload waits for the history."""
MOST_CHARACTERS = 20_000
"""How long the names of all namespaces in one request may be together."""


class ViewerHistory:
    """The history. `client` has the permissions of the dashboard itself."""

    def __init__(self, access: ViewerAccess, client: Client) -> None:
        self._access = access
        self._client = client

    async def report(
        self, credential: Credential, report: Report, readable: Namespaces, query: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return a report about namespaces whose Workloads the viewer may list.

        There is at least one; None means all. Raises StatusError and KubeError.
        """
        if readable is not None and sum(map(len, readable)) > MOST_CHARACTERS:
            raise too_large("you may read too many namespaces for one report; choose one of them")
        try:
            async with self._reader(credential) as client:
                return await read_report(client, report, readable, query)
        except NoHistory as error:
            raise not_found(str(error)) from None
        except ApiError as error:
            if error.status < 500:
                raise
            raise unavailable(error.message) from None

    async def job(self, credential: Credential, namespace: str, uid: str) -> JobRow | None:
        """Return the job of a Workload with its runs; None if that is unknown or takes long."""
        try:
            async with asyncio.timeout(LOOKUP_S):
                found = await self.report(
                    credential, Report.JOBS, frozenset({namespace}), {"uid": uid}
                )
            jobs = msgspec.convert(found["items"], list[JobRow])
        except (StatusError, KubeError, TimeoutError, msgspec.ValidationError):
            return None
        return jobs[0] if jobs else None

    @asynccontextmanager
    async def _reader(self, credential: Credential) -> AsyncIterator[Client]:
        if isinstance(credential, ProxiedUser):
            yield self._client
            return
        async with self._access.client(credential) as client:
            yield client
