# SPDX-License-Identifier: Apache-2.0
"""`kuota export focus`: writes device hours as a FOCUS dataset for cost tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.faults import Invalid
from kuota.history import focus, focus_schema, prices
from kuota.history.api import Report
from kuota.history.charges import Charge, ChargePeriod
from kuota.history.prices import PriceList
from kuota.kube.clock import time_text
from kuota.kube.errors import TooLarge

from .connect import Choice, conduct, server_options
from .groups import CommandGroup
from .history import read
from .list_query import ALL_TEAMS
from .output import counted, show_csv
from .periods import period_options, period_query

if TYPE_CHECKING:
    from .session import Session

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@click.group("export", cls=CommandGroup)
def command() -> None:
    """Export the history for other tools."""


@command.command("focus")
@period_options("30d", UTC)
@ALL_TEAMS
@click.option(
    "--charge-period",
    "every",
    type=click.Choice([each.value for each in ChargePeriod]),
    default=ChargePeriod.DAY.value,
    show_default=True,
    help="How long one charge lasts.",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME",
    help="Only this resource, such as nvidia.com/gpu; may be repeated. Default: all.",
)
@click.option(
    "--prices",
    "file",
    metavar="FILE",
    help="A price list in YAML; see docs/history.md. Without one, all costs are 0.",
)
@click.option(
    "--metadata",
    metavar="FILE",
    help="Also write the metadata of FOCUS, in JSON: version, columns and their types.",
)
@server_options
def focus_command(
    since: datetime,
    until: datetime | None,
    everywhere: bool,
    every: str,
    resources: tuple[str, ...],
    file: str | None,
    metadata: str | None,
    choice: Choice,
) -> None:
    """Write what jobs held as CSV that conforms to FOCUS 1.2.

    There is one row per job, flavor, resource and charge period. Charge periods begin at full
    hours or days in UTC. --since and --until are rounded down to them, so exports that follow one
    another neither overlap nor leave a gap, and the current period is not included.

    \b
    Examples:
      kuota export focus -A --since 2026-01-01 --until 2026-02-01 > january.csv
      kuota export focus -A --charge-period hour --prices prices.yaml --resource nvidia.com/gpu
      kuota export focus -A --metadata january.json > january.csv
    """
    listed = None if file is None else _price_list(file)
    length = ChargePeriod(every)
    begin, end = _aligned(since, length), _aligned(until or datetime.now(UTC), length)
    if begin >= end:
        raise click.UsageError(
            f"there is no complete {every} from {time_text(begin)} up to {time_text(end)}; "
            "choose an earlier --since"
        )

    async def work(session: Session) -> None:
        found = await _charges(session, everywhere, length, begin, end)
        wanted = [each for each in found if not resources or each.resource in resources]
        show_csv([*focus.rows(wanted, listed)], focus.columns(listed))
        if metadata is not None:
            _write_metadata(metadata, focus.columns(listed))
        _report(wanted, listed, begin, end)

    conduct(choice, work)


async def _charges(
    session: Session, everywhere: bool, every: ChargePeriod, begin: datetime, end: datetime
) -> list[Charge]:
    """Read all charges, in several requests if there are too many for one."""
    query = period_query(begin, end) | {"every": every.value}
    try:
        found = await read(session, Report.CHARGES, everywhere, query)
        return [msgspec.convert(each, Charge) for each in found["items"]]
    except TooLarge:
        middle = _aligned(begin + (end - begin) / 2, every)
        if middle <= begin:
            raise
    first = await _charges(session, everywhere, every, begin, middle)
    return first + await _charges(session, everywhere, every, middle, end)


def _aligned(moment: datetime, every: ChargePeriod) -> datetime:
    """Return the start of the charge period that contains a moment."""
    length = timedelta(milliseconds=every.length_ms)
    return moment - (moment - _EPOCH) % length


def _price_list(file: str) -> PriceList:
    import yaml

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            return prices.parsed(yaml.safe_load(opened))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file}: cannot be parsed: {error}") from None
    except Invalid as error:
        found = "\n".join(f"{file}: {each}" for each in error.errors)
        raise click.ClickException(found) from None


def _write_metadata(file: str, columns: Sequence[str]) -> None:
    text = json.dumps(focus_schema.metadata(columns), indent=2)
    try:
        with click.open_file(file, "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None


def _report(
    charges: Sequence[Charge], listed: PriceList | None, begin: datetime, end: datetime
) -> None:
    """Say on standard error what was exported, and what has no price."""
    period = f"from {time_text(begin)} up to {time_text(end)}"
    click.echo(f"{counted(len(charges), 'charge')} {period}", err=True)
    if listed is None:
        click.echo("All costs are 0, because no price list was given (--prices).", err=True)
        return
    used = {(each.resource, each.flavor) for each in charges}
    for resource, flavor in sorted(used):
        if listed.price(resource, flavor) is None:
            click.echo(f"No price for {resource} of flavor {flavor}: its cost is 0.", err=True)
