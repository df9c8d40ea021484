# SPDX-License-Identifier: Apache-2.0
"""Unreliable connections to an API server: truncated watches, rejected or lost writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from kuota.kube.errors import Unreachable
from kuota.kube.requests import HttpRequest, HttpResponse, Transport


class TruncatedStreams:
    """Every stream is cut after some time, in the middle of whatever it says."""

    def __init__(self, inner: Transport, every_s: float = 1.0) -> None:
        self._inner = inner
        self._every_s = every_s
        self.cuts = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self._inner.send(request)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        end = asyncio.get_running_loop().time() + self._every_s
        async with aclosing(self._inner.stream(request)) as chunks:
            while True:
                left_s = end - asyncio.get_running_loop().time()
                try:
                    chunk = await asyncio.wait_for(anext(chunks), max(0.0, left_s))
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    self.cuts += 1
                    raise Unreachable("the line was cut") from None
                yield chunk

    async def close(self) -> None:
        await self._inner.close()


class LossyWrites:
    """Some writes are refused, some never arrive, and of some only the answer is lost."""

    def __init__(self, inner: Transport, seed: int) -> None:
        self._inner = inner
        self._chance = random.Random(seed)
        self.lost = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        if not request.writes or self._chance.random() > 0.3:
            return await self._inner.send(request)
        self.lost += 1
        match self._chance.randrange(3):
            case 0:
                said = {"kind": "Status", "reason": "InternalError", "message": "out of order"}
                return HttpResponse(500, {}, msgspec.json.encode(said))
            case 1:
                raise Unreachable("nothing arrived", sent=False)
            case _:
                await self._inner.send(request)
                raise Unreachable("the answer was lost")

    def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class LostAdmissionResponse:
    """The first admission of a Workload arrives, but its answer is lost, and from then on
    watches of Workloads are late.
    """

    def __init__(self, inner: Transport, late_s: float) -> None:
        self._inner = inner
        self._late_s = late_s
        self.lost = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = await self._inner.send(request)
        status = request.path.endswith("/status") and "/workloads/" in request.path
        if status and b"podSetAssignments" in request.body and not self.lost:
            self.lost = True
            raise Unreachable("the answer was lost")
        return answer

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._inner.stream(request)) as chunks:
            async for chunk in chunks:
                if self.lost and "/workloads" in request.path:
                    await asyncio.sleep(self._late_s)
                yield chunk

    async def close(self) -> None:
        await self._inner.close()
