# SPDX-License-Identifier: Apache-2.0
"""Records in which times allocated devices were idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kuota.view.idle import IdlePeriod

from .address import Address
from .connection import HistoryUnavailable
from .database import HistoryWriter

_LOG = logging.getLogger(__name__)


class IdleRecorder:
    """Stores idle periods. A period that continues is stored again with a later end."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def record(self, periods: Sequence[IdlePeriod]) -> None:
        """Store the current periods. The next report contains what could not be stored."""
        try:
            await asyncio.to_thread(self._write, periods)
        except HistoryUnavailable as error:
            _LOG.warning("idle devices could not be recorded: %s", error)

    def _write(self, periods: Sequence[IdlePeriod]) -> None:
        with HistoryWriter(self._address) as writer:
            writer.write_idle(periods)
