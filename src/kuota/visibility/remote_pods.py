# SPDX-License-Identifier: Apache-2.0
"""Serves the pods of a workload that runs in another cluster, and their logs.

Callers need the permission to read pods, or logs of pods, in the namespace of the workload, as if
its pods were here. `kuota logs` and `kuota describe` use this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from kuota.api.base import Json, Key
from kuota.api.structure.limits import is_time
from kuota.kube.errors import ApiError, BadRequest
from kuota.kube.requests import LogOptions

from .explanation import GROUP, VERSION
from .remote_paths import KIND, LOG, RemotePath
from .responses import ApiResponse, failure, method_not_allowed

TEXT = "text/plain"
FIRST_S = 2.0
"""How long the response to a request for a silent log is delayed, to notice errors."""


class RemotePodSource(Protocol):
    """Reads from other clusters. Raises ApiError."""

    async def pods(self, key: Key) -> tuple[str, list[Json]]:
        """Return the cluster of a workload, and its pods there, oldest first."""

    def log(self, key: Key, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """Yield the log of a pod of a workload in chunks."""


class LogStream:
    """An open log. An error at its beginning is raised when it is opened, not in the stream."""

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        self._source = source
        self._first = asyncio.ensure_future(anext(source, b""))

    @classmethod
    async def opened(cls, source: AsyncGenerator[bytes, None]) -> LogStream:
        """Return the log once it has output, or has been silent for a moment. Raises ApiError."""
        log = cls(source)
        try:
            await asyncio.wait((log._first,), timeout=FIRST_S)
            if log._first.done():
                log._first.result()
        except BaseException:
            await log.close()
            raise
        return log

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the log. Raises ApiError if the rest cannot be read."""
        try:
            yield await self._first
            async for chunk in self._source:
                yield chunk
        finally:
            await self.close()

    async def close(self) -> None:
        """Close a log that is not read any further."""
        self._first.cancel()
        await asyncio.gather(self._first, return_exceptions=True)
        await self._source.aclose()


class RemotePodsApi:
    """Responds to authorized requests."""

    def __init__(self, source: RemotePodSource) -> None:
        self._source = source

    async def answer(
        self, method: str, wanted: RemotePath, query: Mapping[str, str]
    ) -> ApiResponse | LogStream:
        """Return the response, or the log to stream."""
        rejected = method_not_allowed(method)
        if rejected is not None:
            return rejected
        try:
            if wanted.subresource == LOG:
                return await self._log(wanted.key, query)
            cluster, pods = await self._source.pods(wanted.key)
        except ApiError as error:
            # Details distinguish the error from that of a server without this API.
            details = {"group": GROUP, "kind": "workload", "name": wanted.key.name}
            return failure(error.status, error.reason, error.message, details)
        meta = {"namespace": wanted.key.namespace, "name": wanted.key.name}
        body: Json = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": meta}
        return ApiResponse(status=200, body=body | {"cluster": cluster, "pods": pods})

    async def _log(self, key: Key, query: Mapping[str, str]) -> LogStream:
        pod, options = query.get("pod", ""), log_options(query)
        if not pod:
            raise BadRequest(400, "BadRequest", "name the pod: ?pod=NAME")
        return await LogStream.opened(self._source.log(key, pod, options))


def log_options(query: Mapping[str, str]) -> LogOptions:
    """Return the log options of a request. Raises BadRequest that lists all faults."""
    faults: list[str] = []
    since = query.get("sinceTime", "")
    if since and not is_time(since):
        faults.append(f"sinceTime={since[:60]} is not a time in RFC 3339 format")
    numbers = {name: _number(query.get(name, "")) for name in ("tailLines", "sinceSeconds")}
    for name, value in numbers.items():
        if query.get(name) and value is None:
            faults.append(f"{name}={query[name][:60]} is not a number of 0 or more")
    if faults:
        raise BadRequest(400, "BadRequest", "; ".join(faults))
    return LogOptions(
        container=query.get("container", ""),
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=numbers["tailLines"],
        since_s=numbers["sinceSeconds"],
        since_time=since,
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1", "t")


def _number(text: str) -> int | None:
    valid = text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if valid else None
