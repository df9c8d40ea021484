# SPDX-License-Identifier: Apache-2.0
"""`kuota usage`: accounts for what teams, queues, users or flavors used."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.history.accounts import By
from kuota.history.api import Report

from .connect import Choice, conduct, server_options
from .history import flat, hours, read, short_name
from .list_query import EVERYWHERE
from .output import show, show_csv, show_table
from .periods import period_options, period_query

if TYPE_CHECKING:
    from .session import Session

_COMMON = ("cpu", "memory")


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.TEAM.value,
    show_default=True,
    help="What to group by. A team is a namespace, a queue a ClusterQueue.",
)
@period_options("30d")
@EVERYWHERE
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "csv", "json", "yaml"]),
    default="table",
    help="Output format; wide adds what other resources lost, csv has exact numbers.",
)
@server_options
def command(
    by: str,
    since: datetime,
    until: datetime | None,
    everywhere: bool,
    output: str,
    choice: Choice,
) -> None:
    """Account for what was used: amounts of each resource, multiplied by hours.

    LOST is the part in runs that an eviction ended; jobs that write checkpoints lose less. WAITED
    adds up how long jobs waited for quota. Members see their own namespace, admins may use -A.

    \b
    Examples:
      kuota usage -A
      kuota usage --by user --since 2026-01-01 --until 2026-02-01
      kuota usage -A --by flavor --since 90d -o csv > usage.csv
    """

    async def work(session: Session) -> None:
        query = period_query(since, until) | {"by": by}
        found = await read(session, Report.USAGE, everywhere, query)
        if output in ("json", "yaml"):
            show(found, output)
        else:
            _print(found, by, output)

    conduct(choice, work)


def _print(found: Json, by: str, output: str) -> None:
    items = found["items"]
    if output == "csv":
        show_csv([flat(each) for each in items])
        return
    if not items:
        click.echo("Nothing was used in this period.", err=True)
        return
    resources = sorted({name for each in items for name in each["resources"]}, key=_order)
    devices = [each for each in resources if output == "wide" or each not in _COMMON]
    titles = (
        by,
        "jobs",
        *(f"{short_name(each)}-hours" for each in resources),
        *(f"lost {short_name(each)}-hours" for each in devices),
        "hours waited",
        "preemptions",
    )
    show_table(titles, [_row(each, resources, devices) for each in items])


def _row(account: Json, resources: list[str], devices: list[str]) -> list[str]:
    held = account["resources"]
    nothing = {"hours": 0.0, "lost": 0.0}
    return [
        account["group"] or "(unknown)",
        str(account["jobs"]),
        *(_amount(held.get(each, nothing)["hours"], each) for each in resources),
        *(_amount(held.get(each, nothing)["lost"], each) for each in devices),
        hours(account["waitingHours"]),
        str(account["preemptions"]),
    ]


def _amount(value: float, resource: str) -> str:
    return f"{hours(value / 2**30)} GiB" if resource == "memory" else hours(value)


def _order(resource: str) -> tuple[bool, str]:
    """Devices come first."""
    return resource in _COMMON, resource
