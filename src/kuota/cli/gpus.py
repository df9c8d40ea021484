# SPDX-License-Identifier: Apache-2.0
"""`kuota gpus`: shows the devices of this machine, their holders and their utilization."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.kube.errors import NotFound
from kuota.view.devices import DEVICES_PATH, DeviceRow
from kuota.view.live import age

from .connect import Choice, conduct, server_options
from .output import FORMATS, show, show_table

if TYPE_CHECKING:
    from .session import Session

_GIB = 2**30


@click.command("gpus")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", *FORMATS]),
    default="table",
    help="Output format; wide adds columns.",
)
@server_options
def command(output: str, choice: Choice) -> None:
    """Show each GPU of this machine: its holder, since when, its utilization and memory.

    A GPU is idle if it is allocated, but its utilization is below `--idle-below` of `kuota up` for
    `--idle-after`. Members see which GPUs are in use, and by whom within their own namespaces.

    \b
    Examples:
      kuota gpus
      kuota gpus -o json
    """

    async def work(session: Session) -> None:
        try:
            found = await session.client.fetch(DEVICES_PATH)
        except NotFound:
            raise click.ClickException(
                "only the server of `kuota up` knows the devices of its machine; on a cluster, "
                "the page Nodes of the dashboard shows them if deviceMetrics is set, "
                "`kuota describe node NAME` shows how many are in use, and Events with the reason "
                "DeviceIdle name idle ones"
            ) from None
        if output in FORMATS:
            show(found, output)
            return
        rows = msgspec.convert(found["items"], list[DeviceRow])
        if not rows:
            click.echo(
                "Kuota found no GPUs. If `nvidia-smi` shows some, its log says why they cannot be "
                "read; `kuota up --gpus N` simulates some.",
                err=True,
            )
            return
        _print(rows, output == "wide")

    conduct(choice, work)


def _print(rows: list[DeviceRow], wide: bool) -> None:
    now = datetime.now(UTC)
    titles = ["Device", "Used by", "Since", "Utilization", "Memory"]
    table = [[_name(each, wide), _holder(each), *_readings(each, now)] for each in rows]
    if wide or len({each.resource for each in rows}) > 1:
        titles.append("Resource")
        table = [[*row, each.resource] for row, each in zip(table, rows, strict=True)]
    if wide or len({each.node for each in rows}) > 1:
        titles.append("Node")
        table = [[*row, each.node] for row, each in zip(table, rows, strict=True)]
    show_table(titles, table)


def _name(row: DeviceRow, wide: bool) -> str:
    """The id of the device; in a narrow table only the beginning of a UUID."""
    return row.id if wide or len(row.id) <= 20 else f"{row.id[:12]}…"


def _holder(row: DeviceRow) -> str:
    if not row.held:
        return "-"
    return f"{row.namespace}/{row.job or row.pod}" if row.namespace else "(another team)"


def _readings(row: DeviceRow, now: datetime) -> list[str]:
    busy = "" if row.utilization_percent is None else f"{row.utilization_percent} %"
    if row.idle_since:
        busy = f"{busy}, idle for {age(row.idle_since, now)}".removeprefix(", ")
    memory = ""
    if row.memory_used_bytes is not None and row.memory_total_bytes is not None:
        memory = f"{row.memory_used_bytes / _GIB:.1f}/{row.memory_total_bytes / _GIB:.1f} GiB"
    return [age(row.since, now) if row.since else "", busy, memory]
