# SPDX-License-Identifier: Apache-2.0
"""`kuota usage`: accounts for what teams, queues, users or flavors used."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.api.device_resources import is_device, resource_order
from kuota.api.quantity import is_size
from kuota.history.accounts import By
from kuota.history.api import Report

from .connect import Choice, conduct, server_options
from .history import flat, hours, read, short_name
from .list_query import ALL_TEAMS
from .output import show, show_csv, show_table
from .periods import period_options, period_query, report_output
from .waste import print_waste

if TYPE_CHECKING:
    from .session import Session


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.TEAM.value,
    show_default=True,
    help="What to group by. A team is a namespace, a queue a ClusterQueue.",
)
@click.option(
    "--waste",
    is_flag=True,
    help="Show what was wasted instead, by cause and team.",
)
@period_options("30d")
@ALL_TEAMS
@report_output("wide adds what other resources lost, csv has exact numbers.")
@server_options
def command(
    by: str,
    waste: bool,
    since: datetime,
    until: datetime | None,
    everywhere: bool,
    output: str,
    choice: Choice,
) -> None:
    """Account for what was used: amounts of each resource, multiplied by hours.

    LOST is the part in runs that an eviction ended; jobs that write checkpoints lose less. WAITED
    adds up how long jobs waited for quota. With -A, members see all namespaces of their teams.

    With --waste: FREE is quota that was free while jobs of the team waited for it, PREEMPTED and
    EVICTED are runs that were lost, FAILED START are runs of jobs that never started, and IDLE is
    allocated devices that were not used.

    \b
    Examples:
      kuota usage -A
      kuota usage -A --waste --since 7d
      kuota usage --by user --since 2026-01-01 --until 2026-02-01
      kuota usage -A --by flavor --since 90d -o csv > usage.csv
    """

    _check(by, waste)

    async def work(session: Session) -> None:
        query = period_query(since, until) | {"by": by}
        report = Report.WASTE if waste else Report.USAGE
        found = await read(session, report, everywhere, query)
        if output in ("json", "yaml"):
            show(found, output)
        elif waste:
            print_waste(found, output)
        else:
            _print(found, by, output, "" if everywhere else session.namespace)

    conduct(choice, work)


def _check(by: str, waste: bool) -> None:
    if waste and by != By.TEAM:
        raise click.UsageError("--waste is reported by team; omit --by")


def _print(found: Json, by: str, output: str, namespace: str) -> None:
    items = found["items"]
    if output == "csv":
        show_csv([flat(each) for each in items])
        return
    if not items:
        where = f" in namespace {namespace}; -A shows all" if namespace else ""
        click.echo(f"Nothing was used in this period{where}.", err=True)
        return
    resources = sorted({name for each in items for name in each["resources"]}, key=resource_order)
    devices = [each for each in resources if output == "wide" or is_device(each)]
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
    return f"{hours(value / 2**30)} GiB" if is_size(resource) else hours(value)
