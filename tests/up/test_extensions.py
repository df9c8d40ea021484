# SPDX-License-Identifier: Apache-2.0
"""Logs of other clusters in responses of the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from kuota.up.extensions import _Interruptible
from kuota.visibility import remote_pods
from kuota.visibility.remote_pods import LogStream


def test_a_silent_log_that_nobody_reads_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_pods, "FIRST_S", 0.01)
    ended: list[bool] = []

    async def silent() -> AsyncGenerator[bytes, None]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            ended.append(True)

    async def work() -> None:
        body = _Interruptible(await LogStream.opened(silent()))
        await body.aclose()
        assert [True] == ended
        await body.aclose()

    asyncio.run(work())
