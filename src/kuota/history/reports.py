# SPDX-License-Identifier: Apache-2.0
"""Reads the database for one report."""

from __future__ import annotations

from kuota.api.base import Json

from . import api
from .address import Address
from .charges import TooManyCharges
from .database import read, read_waste
from .waste import TooManyChanges


class ReportTooLarge(Exception):
    """The period contains too much for one report. The message says what to do."""


def report(address: Address, place: api.ReportScope, question: api.Question) -> Json:
    """Return a report, with a connection of its own, so that it may run in any thread.

    Raises HistoryUnavailable and ReportTooLarge.
    """
    since, until = question.period.since, question.period.until
    try:
        if place.report is api.Report.WASTE:
            return api.waste_document(place, question, *read_waste(address, since, until))
        return api.document(place, question, read(address, since, place.namespace))
    except (TooManyCharges, TooManyChanges) as error:
        raise ReportTooLarge(str(error)) from None
