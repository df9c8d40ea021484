# SPDX-License-Identifier: Apache-2.0
"""`kuota history`: shows jobs of the past, with what they used and lost."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from kuota.api.base import Json
from kuota.api.device_resources import is_device
from kuota.history.api import MOST_JOBS, Report
from kuota.history.client import NoHistory, read_report
from kuota.kube.errors import Forbidden
from kuota.view.live import moment, span

from .amounts import Integer
from .connect import Choice, conduct, server_options
from .list_query import ALL_TEAMS
from .output import show, show_csv, show_table
from .own_namespaces import own_namespaces
from .periods import period_options, period_query, report_output

if TYPE_CHECKING:
    from .session import Session

_COLUMNS = (
    "Job",
    "User",
    "Queue",
    "Outcome",
    "Finished",
    "Waited",
    "Ran",
    "Used",
    "Preempted",
    "Lost",
)
_WIDE = ("Kind", "Workload", "ClusterQueue", "Submitted", "Started", "Cause")
_OPTIONAL = (
    *("Cause", "Workload", "Started", "Submitted", "Kind", "ClusterQueue"),
    *("Queue", "Waited", "Lost"),
)


@click.command("history")
@click.argument("job", required=False, default="", metavar="[JOB]")
@click.option("-u", "--user", default="", metavar="NAME", help="Only jobs of this user.")
@period_options("7d")
@ALL_TEAMS
@click.option(
    "--limit",
    type=Integer(1, MOST_JOBS),
    default=500,
    show_default=True,
    help="The most jobs to show, newest first.",
)
@report_output("wide adds columns, csv has all of them.")
@server_options
def command(
    job: str,
    user: str,
    since: datetime,
    until: datetime | None,
    everywhere: bool,
    limit: int,
    output: str,
    choice: Choice,
) -> None:
    """Show which jobs ran, for whom, how they ended, and what they used.

    OUTCOME is Waiting, Running or Deactivated while the job has not ended. QUEUE is the LocalQueue;
    -o wide also shows the ClusterQueue of the last run, or in which the
    job has waited. USED is the amount of a device, multiplied by the hours for which the job held
    it. LOST is the part in runs that an eviction ended; a job that writes checkpoints loses less.
    The history includes jobs that were deleted since, and jobs that still wait or run. With JOB, it
    shows all jobs of that name.

    \b
    Examples:
      kuota history
      kuota history train -o wide
      kuota history -A --user ann --since 30d
      kuota history -A --since 30d -o csv > jobs.csv
    """

    async def work(session: Session) -> None:
        query = period_query(since, until) | {"limit": str(limit)}
        query |= {"job": job.rpartition("/")[2]} if job else {}
        query |= {"user": user} if user else {}
        found = await read(session, Report.JOBS, everywhere, query)
        if output in ("json", "yaml"):
            show(found, output)
        else:
            where = "" if everywhere else f" in namespace {session.namespace}; -A shows all"
            _print(found, output, everywhere, where)

    conduct(choice, work)


async def read(
    session: Session, report: Report, everywhere: bool, query: dict[str, str]
) -> dict[str, Any]:
    """Return a report of the server. Raises ClickException if it keeps no history.

    Members get a report on the namespaces of their teams if they ask for all namespaces.
    """

    async def inside(namespaces: list[str] | None) -> dict[str, Any]:
        try:
            return await read_report(session.client, report, namespaces, query)
        except NoHistory as error:
            raise click.ClickException(str(error)) from None

    try:
        return await inside(None if everywhere else [session.namespace])
    except Forbidden:
        own = await own_namespaces(session) if everywhere and session.embedded else []
        if not own:
            raise
    return await inside(own)


def _print(found: Json, output: str, everywhere: bool, where: str) -> None:
    items = found["items"]
    if output == "csv":
        show_csv([flat(each) for each in items])
    elif not items:
        click.echo(f"No jobs in this period{where}.", err=True)
    else:
        detailed = output == "wide"
        titles = (*(("Namespace",) if everywhere else ()), *_COLUMNS, *(_WIDE if detailed else ()))
        rows = [_row(each, everywhere, detailed) for each in items]
        show_table(titles, rows, optional=_OPTIONAL)
    if found["remaining"]:
        click.echo(f"… and {found['remaining']} more; see --limit, --since and --until", err=True)


def flat(item: Json) -> dict[str, str]:
    """Return an item of a report as one row of CSV, with exact numbers."""
    resources = item.get("resources") or {}
    row = {name: str(value) for name, value in item.items() if name != "resources"}
    for name, each in sorted(resources.items()):
        row |= {
            f"{name} hours": f"{each['hours']:.6f}",
            f"{name} lost hours": f"{each['lost']:.6f}",
        }
    return row


def _row(job: Json, everywhere: bool, detailed: bool) -> list[str]:
    row = [
        job["job"],
        job.get("user", ""),
        job.get("queue", ""),
        job.get("state") or job.get("outcome", ""),
        _local(job.get("finished")),
        span(job.get("waitedSeconds", 0)),
        span(job.get("ranSeconds", 0)) if job.get("started") else "",
        hours_text(job.get("resources") or {}, "hours"),
        str(job.get("preemptions", 0)),
        hours_text(job.get("resources") or {}, "lost"),
    ]
    if detailed:
        times = [_local(job.get("submitted")), _local(job.get("started"))]
        names = [job["kind"], job["workload"], job.get("clusterQueue", "")]
        row += [*names, *times, job.get("cause", "")]
    return [job["namespace"], *row] if everywhere else row


def hours_text(resources: Json, field: str) -> str:
    """Return the hours of devices, or of CPUs if there are no devices."""
    devices = {name: each for name, each in resources.items() if is_device(name)}
    shown = devices or {name: each for name, each in resources.items() if name == "cpu"}
    return ", ".join(
        f"{hours(each[field])} {short_name(name)}-hours"
        for name, each in sorted(shown.items())
        if each[field]
    )


def hours(value: float) -> str:
    """Format hours for people."""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def short_name(resource: str) -> str:
    """Return the name of a resource without its domain: nvidia.com/gpu is gpu."""
    return resource.rpartition("/")[2]


def _local(stamp: object) -> str:
    found = moment(stamp)
    return "" if found is None else f"{found.astimezone():%Y-%m-%d %H:%M:%S}"
