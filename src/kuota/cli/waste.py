# SPDX-License-Identifier: Apache-2.0
"""Prints waste by cause, for `kuota usage --waste`."""

from __future__ import annotations

import click

from kuota.api.base import Json
from kuota.api.device_resources import is_device
from kuota.api.quantity import is_size
from kuota.history.waste import Cause

from .history import hours, short_name
from .output import show_csv, show_table

TITLES = {
    Cause.WAITING: "free",
    Cause.PREEMPTED: "preempted",
    Cause.EVICTED: "evicted",
    Cause.FAILED_START: "failed start",
    Cause.IDLE: "idle",
}


def print_waste(found: Json, output: str) -> None:
    """Print one row per team and resource. The table shows devices, or CPUs if there are none."""
    rows = [
        (each["group"], resource, causes)
        for each in found["items"]
        for resource, causes in sorted(each["resources"].items())
    ]
    if output == "csv":
        show_csv([_exact(*row) for row in rows], ("group", "resource", *Cause))
        return
    if output != "wide":
        rows = _devices(rows)
    if not rows:
        click.echo("Nothing was wasted in this period.", err=True)
        return
    titles = ("team", "resource-hours", *TITLES.values(), "total")
    show_table(titles, [_row(*row) for row in rows])


def _devices(rows: list[tuple[str, str, Json]]) -> list[tuple[str, str, Json]]:
    devices = [row for row in rows if is_device(row[1])]
    return devices or [row for row in rows if row[1] == "cpu"]


def _row(team: str, resource: str, causes: Json) -> list[str]:
    divisor = 2**30 if is_size(resource) else 1
    values = [causes[each.value] / divisor for each in TITLES]
    name = f"{short_name(resource)} (GiB)" if divisor > 1 else short_name(resource)
    return [team, name, *(hours(each) for each in (*values, sum(values)))]


def _exact(team: str, resource: str, causes: Json) -> dict[str, str]:
    exact = {cause: f"{value:.6f}" for cause, value in causes.items()}
    return {"group": team, "resource": resource, **exact}
