# SPDX-License-Identifier: Apache-2.0
"""Checks, creates and prints the objects of `kuota create`."""

from __future__ import annotations

import click

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError
from kuota.api.gates import resolved
from kuota.api.rules import faults, unknown_faults
from kuota.kube.errors import NotFound
from kuota.kube.resources import CLUSTER_QUEUES

from . import output as printed
from .kinds import NAMES
from .output import name_text, tidied
from .session import Session


def checked(obj: Json) -> list[FieldError]:
    """Everything that is wrong with the object."""
    return [*faults(obj, None, resolved("", None)), *unknown_faults(obj)]


async def created(session: Session, obj: Json, needed: str, dry_run: bool) -> Json:
    """The object as stored. Raises LookupError if the ClusterQueue that it needs is not there."""
    if needed:
        try:
            await session.client.get(CLUSTER_QUEUES, Key("", needed))
        except NotFound:
            raise LookupError(
                f"there is no ClusterQueue {needed}; create it first, or give --ignore-unknown-cq"
            ) from None
    resource = NAMES[str(obj["kind"]).lower()]
    return await session.client.create(resource, obj, dry_run=dry_run, validation="Strict")


def shown(kind: str, obj: Json, output: str, word: str) -> None:
    resource = NAMES[kind.lower()]
    if output in printed.FORMATS:
        printed.show(tidied(obj), output)
    elif output == "name":
        click.echo(name_text(resource, obj))
    else:
        click.echo(f"{name_text(resource, obj)} {word}")
