# SPDX-License-Identifier: Apache-2.0
"""Records in which times allocated devices were idle."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from kuota.view.idle import IdlePeriod

from .address import Address
from .calls import Calls, InThread
from .connection import HistoryUnavailable
from .database import HistoryWriter

_LOG = logging.getLogger(__name__)


class IdleRecorder:
    """Stores idle periods. A period that continues is stored again with a later end."""

    def __init__(self, address: Address, calls: Calls | None = None) -> None:
        self._address = address
        self._calls = calls or InThread()

    async def record(self, periods: Sequence[IdlePeriod]) -> None:
        """Store the current periods. The next report contains what could not be stored."""
        try:
            await self._calls(partial(self._write, periods))
        except HistoryUnavailable as error:
            _LOG.warning("idle devices could not be recorded: %s", error)

    def _write(self, periods: Sequence[IdlePeriod]) -> None:
        with HistoryWriter(self._address) as writer:
            writer.write_idle(periods)
