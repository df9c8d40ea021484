# SPDX-License-Identifier: Apache-2.0
"""Options of reports: the period, as times or as how long ago, and the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})([smhdw])")


class Moment(click.ParamType[datetime]):
    """A time such as 2026-01-31 or 2026-01-31T12:00, or how long ago: 30m, 12h, 7d, 4w.

    A time without an offset is local, or in `zone`.
    """

    name = "time"

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        ago = _AGO.fullmatch(value)
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None and self._zone is not None:
                moment = moment.replace(tzinfo=self._zone)
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"'{value}' is no time; write for example 12h, 7d, 2026-01-31 or 2026-01-31T12:00",
                param,
                ctx,
            )


def period_options(since: str, zone: tzinfo | None = None) -> Callable[[F], F]:
    """Add --since and --until; the command gets both as datetime, `until` may be None.

    Times without an offset are local, or in `zone`.
    """
    where = "a local time" if zone is None else f"a time in {zone}"

    def added(function: F) -> F:
        function = click.option(
            "--until",
            type=Moment(zone),
            metavar="TIME",
            help="The end of the period, which is not included. Default: now.",
        )(function)
        return click.option(
            "--since",
            type=Moment(zone),
            default=since,
            show_default=True,
            metavar="TIME",
            help=f"The start of the period: {where}, or how long ago, such as 12h or 7d.",
        )(function)

    return added


def period_query(since: datetime, until: datetime | None) -> dict[str, str]:
    """Return the parameters of a request for the period. Raises UsageError if it is empty."""
    if since >= (until or datetime.now(UTC)):
        raise click.UsageError("--since must be before --until, and in the past")
    query = {"since": since.astimezone(UTC).isoformat()}
    return query if until is None else query | {"until": until.astimezone(UTC).isoformat()}


def report_output(words: str) -> Callable[[F], F]:
    """Return the option for the format of a report; `words` describe the formats wide and csv."""
    formats = click.Choice(["table", "wide", "csv", "json", "yaml"])
    return click.option(
        "-o", "--output", type=formats, default="table", help=f"Output format; {words}"
    )
