# SPDX-License-Identifier: Apache-2.0
"""The part of `kuota describe` about the devices of a running workload: utilization, idle ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.base import Json
from kuota.kube.errors import ApiError
from kuota.kube.resources import CORE_EVENTS, key_of
from kuota.view.devices import DEVICES_PATH, DeviceRow
from kuota.view.idle import REASON
from kuota.view.live import age

from .output import one_line

if TYPE_CHECKING:
    from .session import Session


async def print_devices(session: Session, workload: Json) -> None:
    """Print how busy the devices of a workload are, and which are idle, if the server knows."""
    key = key_of(workload)
    try:
        found = await session.client.fetch(DEVICES_PATH)
        rows = msgspec.convert(found["items"], list[DeviceRow])
    except (ApiError, msgspec.ValidationError):
        text = await _reported(session, workload)
    else:
        own = [
            each for each in rows if (each.namespace, each.workload) == (key.namespace, key.name)
        ]
        text = devices_text(own, datetime.now(UTC))
    if text:
        click.echo(f"{'Devices:':<13}{text}")


def devices_text(rows: Sequence[DeviceRow], now: datetime) -> str:
    """Return the devices in words: how many, their average utilization, and the idle ones."""
    if not rows:
        return ""
    counts = Counter(each.resource for each in rows)
    parts = [", ".join(f"{count} {resource}" for resource, count in sorted(counts.items()))]
    known = [each.utilization_percent for each in rows if each.utilization_percent is not None]
    if known:
        parts.append(f"{sum(known) / len(known):.0f} % utilized")
    idle = [each for each in rows if each.idle_since]
    if idle:
        since = age(min(each.idle_since for each in idle), now)
        parts.append(f"{len(idle)} idle for {since}: {', '.join(each.id for each in idle)}")
    return "; ".join(parts)


async def _reported(session: Session, workload: Json) -> str:
    """Return the last Event about idle devices: on a cluster, nothing else tells."""
    key = key_of(workload)
    selector = f"involvedObject.name={key.name},reason={REASON}"
    try:
        found = await session.client.list(CORE_EVENTS, key.namespace, field_selector=selector)
    except ApiError:
        return ""
    notes = sorted(
        (str(each.get("lastTimestamp") or each.get("eventTime") or ""), each["message"])
        for each in found.items
        if each.get("message")
    )
    return one_line(notes[-1][1]) if notes else ""
