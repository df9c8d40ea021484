# SPDX-License-Identifier: Apache-2.0
"""Fetches readings of GPUs from dcgm-exporters, or from a Prometheus that scrapes them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

import aiohttp
import msgspec

from .dcgm import DeviceSample, UnreadableReadings, exporter_samples, prometheus_samples, query
from .sources import DeviceSources

TIMEOUT_S = 10.0
MOST_BYTES = 16 << 20
_AT_ONCE = 16
_log = logging.getLogger(__name__)


class SourceReader:
    """Reads all sources. One that fails is logged once, and left out until it responds again."""

    def __init__(self, sources: DeviceSources) -> None:
        self._sources = sources
        self._failing: dict[str, str] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self) -> list[DeviceSample]:
        """Return the allocated devices of all sources."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=True) as session:
            urls = [at for each in self._sources.exporters for at in await self._addresses(each)]
            found = list(await asyncio.gather(*(self._exporter(session, *at) for at in urls)))
            if self._sources.prometheus:
                found.append(await self._prometheus(session))
        return [sample for each in found for sample in each]

    async def _addresses(self, url: str) -> list[tuple[str, str]]:
        """Return the URLs of all addresses, each with the host name that it stands for."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return [(url, parts.netloc)]  # The certificate is that of the name.
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, parts.port or 80, type=socket.SOCK_STREAM)
        except OSError as error:
            self._failed(f"host {host}", str(error))
            return []
        self._worked(f"host {host}")
        addresses = sorted({str(each[4][0]) for each in found})
        named = [f"[{each}]" if ":" in each else each for each in addresses]
        return [
            (parts._replace(netloc=f"{each}:{parts.port or 80}").geturl(), parts.netloc)
            for each in named
        ]

    async def _exporter(
        self, session: aiohttp.ClientSession, url: str, host: str
    ) -> Sequence[DeviceSample]:
        try:
            body = await self._fetch(session, url, host, {})
            samples = await asyncio.to_thread(exporter_samples, body.decode())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self._failed(url, _words(error))
            return ()
        self._worked(url)
        return samples

    async def _prometheus(self, session: aiohttp.ClientSession) -> Sequence[DeviceSample]:
        url, wanted = self._sources.prometheus, query(self._sources.selector)
        try:
            at = f"{url.rstrip('/')}/api/v1/query"
            body = await self._fetch(session, at, urlsplit(url).netloc, {"query": wanted})
            samples = prometheus_samples(msgspec.json.decode(body))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self._failed(url, _words(error))
            return ()
        self._worked(url)
        return samples

    async def _fetch(
        self, session: aiohttp.ClientSession, url: str, host: str, query: dict[str, str]
    ) -> bytes:
        """Return the body of a response. Raises UnreadableReadings if it is too large or failed."""
        async with (
            self._turns,
            session.get(
                url, params=query, headers={"Host": host}, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                raise UnreadableReadings(f"status {response.status}")
            body = bytearray()
            async for piece in response.content.iter_chunked(1 << 16):
                body += piece
                if len(body) > MOST_BYTES:
                    raise UnreadableReadings(f"the response is larger than {MOST_BYTES} bytes")
            return bytes(body)

    def _failed(self, url: str, why: str) -> None:
        if url not in self._failing:
            _log.warning("no readings of GPUs from %s: %s", url, why)
        self._failing[url] = why

    def _worked(self, url: str) -> None:
        if self._failing.pop(url, None) is not None:
            _log.info("readings of GPUs from %s again", url)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
