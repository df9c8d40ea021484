# SPDX-License-Identifier: Apache-2.0
"""Stops and resumes queues and workloads, by the one field of each that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .connect import FAILED, Choice, conduct, refusal

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.kube.resources import Resource

    from .session import Session

HOLD, DRAIN, NONE = "Hold", "HoldAndDrain", "None"


def set_field(
    choice: Choice, plural: str, names: Sequence[str], field: Json, word: str, dry_run: bool
) -> None:
    """Set fields of the spec of each object, and say `word` of it; ends the command."""

    async def work(session: Session) -> int:
        from .kinds import NAMES

        resource = NAMES[plural]
        failures = [
            each for each in names if not await _set(session, resource, each, field, word, dry_run)
        ]
        return FAILED if failures else 0

    conduct(choice, work)


async def _set(
    session: Session, resource: Resource, name: str, field: Json, word: str, dry_run: bool
) -> bool:
    from kuota.kube.errors import ApiError, NotFound

    from .absent import absent
    from .output import name_text

    try:
        obj = await session.client.patch(
            resource, session.key(resource, name), {"spec": field}, dry_run=dry_run
        )
    except NotFound as error:
        click.echo(f"Error: {await absent(session, resource, name, error)}", err=True)
        return False
    except ApiError as error:
        click.echo(f"Error: {refusal(error)}", err=True)
        return False
    click.echo(f"{name_text(resource, obj)} {word}{' (dry run)' if dry_run else ''}")
    return True
