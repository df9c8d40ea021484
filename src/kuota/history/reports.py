# SPDX-License-Identifier: Apache-2.0
"""Reads the database for reports, in threads that users share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kuota.api.base import Json

from . import api
from .address import Address
from .charges import TooManyCharges
from .database import TooManyRecords, read, read_one, read_waste
from .turns import ReportTurns
from .waste import TooManyChanges


class ReportTooLarge(Exception):
    """The period contains too much for one report. The message says what to do."""


class HistoryReports:
    """The reports of a history. `clock` returns seconds since the epoch.

    Whoever asks for a report has already been allowed to read it.
    """

    def __init__(self, address: Address, clock: Callable[[], float]) -> None:
        self._address = address
        self._clock = clock
        self._turns = ReportTurns()
        # The page of a workload does not wait for somebody's report about a year.
        self._lookups = ReportTurns()

    async def document(self, user: str, place: api.ReportScope, query: Mapping[str, str]) -> Json:
        """Return a report when it is the user's turn.

        Raises Invalid with all faults of the query, HistoryUnavailable and ReportTooLarge.
        """
        question = api.parse_query(query, self._clock())
        turns = self._lookups if question.uid else self._turns
        return await turns.run(user, partial(_report, self._address, place, question))


def _report(address: Address, place: api.ReportScope, question: api.Question) -> Json:
    """Return a report, with a connection of its own, so that it may run in any thread."""
    since, until = question.period.since, question.period.until
    try:
        if place.report is api.Report.WASTE:
            return api.waste_document(place, question, *read_waste(address, since, until))
        if place.report is api.Report.JOBS and question.uid:
            return api.detailed_document(place, question, read_one(address, question.uid))
        return api.document(place, question, read(address, since, place.namespaces))
    except (TooManyCharges, TooManyChanges, TooManyRecords) as error:
        raise ReportTooLarge(str(error)) from None
