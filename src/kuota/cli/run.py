# SPDX-License-Identifier: Apache-2.0
"""`kuota run`: submit a command as a Job, wait for its turn, and see it through.

Exit status: that of the command itself once it ran (0 if all its pods succeeded); 1 when it was
refused or deleted, 2 for wrong use, 3 when no server could be reached, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .connect import Choice, conduct, server_options

if TYPE_CHECKING:
    asked = _asked(**given)

    async def work(session: Session) -> int:
        from .running import Running

        running = Running(session, quiet=quiet, on_interrupt=on_interrupt)
        if dry_run:
            return await running.preview(_settled(asked, session))
        return await running.run(_settled(asked, session), detach=detach)

    conduct(choice, work)


def _asked(
    *,
    gpus: int,
    cpus: str,
    memory: str,
    resources: tuple[str, ...],
    variables: tuple[str, ...],
    time_limit: int | None,
    grace_period: int | None,
    **others: Any,
) -> Asked:
    """What the options say, checked; those that mean what they say go through as they are."""
    from .run_job import Asked

    return Asked(
        amounts=_amounts(gpus, cpus, memory, resources),
        variables=_variables(variables),
        time_limit_s=time_limit,
        grace_s=grace_period,
        **others,
    )


def _amounts(gpus: int, cpus: str, memory: str, others: tuple[str, ...]) -> dict[str, str]:
    """What each pod asks for, by resource."""
    from kuota.api.quantity import QuantityError, parse

    amounts = {"cpu": cpus, "memory": memory, "nvidia.com/gpu": str(gpus) if gpus else ""}
    for each in others:
        name, equals, amount = each.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{each}' is not NAME=AMOUNT", param_hint="--resource")
        amounts[name] = amount
    kept = {name: amount for name, amount in amounts.items() if amount}
    for name, amount in kept.items():
        try:
            if parse(amount) < 0:
                raise click.BadParameter(f"{name}: {amount} is below nothing")
        except QuantityError as error:
            raise click.BadParameter(f"{name}: {error}") from None
    return kept


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set in this shell", param_hint="--env")
        variables[name] = value if equals else os.environ[name]
    return variables


def _settled(asked: Asked, session: Session) -> Asked:
    """What was asked, with what depends on where it runs.

    Our own server runs processes on this machine: they start in this folder, and find the programs
    that this shell finds.
    """
    import msgspec

    if not session.embedded:
        if not asked.image:
            raise click.UsageError("on a cluster the command needs an --image to run in")
        return asked
    shell = {
        name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "HOME") if name in os.environ
    }
    return msgspec.structs.replace(
        asked,
        image=asked.image or "local",
        workdir=os.path.abspath(asked.workdir or "."),
        variables=shell | asked.variables,
    )
