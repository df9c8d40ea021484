# SPDX-License-Identifier: Apache-2.0
"""Explains why AdmissionChecks are inactive, and with them the ClusterQueues that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kuota.api.base import Json, Key
from kuota.api.rules.report import child, elements, mapping, objects, text
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import ADMISSION_CHECKS

if TYPE_CHECKING:
    from .session import Session


def inactivity(check: Json) -> str:
    """Return why a check is inactive, with a remedy; "" if it is active."""
    listed = map(mapping, elements(child(check, "status").get("conditions")))
    active = next((each for each in listed if each.get("type") == "Active"), None)
    if active is None:
        name = text(child(check, "spec").get("controllerName"))
        return (
            f"no controller has reported on this check; is the controller {name} running, "
            "and is Kuota?"
        )
    return "" if active.get("status") == "True" else text(active.get("message"))


def print_check(check: Json) -> None:
    """Print why a check is inactive."""
    reason = inactivity(check)
    if reason:
        click.echo(f"{'Inactive:':<13}{reason}")


async def print_checks(session: Session, queue: Json) -> None:
    """Print why checks of a ClusterQueue are inactive. Checks that cannot be read are skipped."""
    listed = child(queue, "spec", "admissionChecksStrategy").get("admissionChecks")
    for _, each in objects(listed, ""):
        name = text(each.get("name"))
        try:
            check = await session.client.get(ADMISSION_CHECKS, Key("", name))
        except NotFound:
            reason = "does not exist; create it, or remove it from the queue"
        except ApiError:
            continue
        else:
            reason = inactivity(check)
        if reason:
            click.echo(f"{'Check:':<13}{name}: {reason}")
