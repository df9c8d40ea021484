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
    from .run_job import Asked
    from .session import Session


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, required=True, metavar="-- COMMAND [ARGUMENT]...")
@click.option("-q", "--queue", default="", metavar="NAME", help="The LocalQueue to wait in.")
@click.option("--gpus", type=click.IntRange(0), default=0, metavar="N", help="GPUs for each pod.")
@click.option("--cpus", default="", metavar="AMOUNT", help="CPUs for each pod: 4, or 500m.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory for each pod: 8Gi.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Anything else that each pod needs. May be repeated.",
)
@click.option("--priority", default="", metavar="CLASS", help="A WorkloadPriorityClass.")
@click.option("--name", default="", help="The Job's name; made from the command if not given.")
@click.option(
    "--parallelism",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Pods that run at once and are admitted together; each knows its JOB_COMPLETION_INDEX.",
)
@click.option("--retries", type=click.IntRange(0), default=0, metavar="N", help="After failures.")
@click.option(
    "--time-limit",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Stop it when it has run that long.",
)
@click.option(
    "--grace-period",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="Time between TERM and KILL when it has to stop, to save its work in.",
)
@click.option(
    "-e",
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable for it; without a value that of this shell. May be repeated.",
)
@click.option("--workdir", default="", metavar="FOLDER", help="Where it starts.")
@click.option("--image", default="", help="Needed on a cluster; here processes run without one.")
@click.option("-d", "--detach", is_flag=True, help="Submit it, and do not wait.")
@click.option("--dry-run", is_flag=True, help="Print the Job as YAML, and submit nothing.")
@click.option("--quiet", is_flag=True, help="Only its own output.")
@click.option(
    "--on-interrupt",
    type=click.Choice(["ask", "leave", "cancel"]),
    default="ask",
    show_default=True,
    help="What Ctrl-C does: leave the Job running, or cancel it. Without a terminal, ask leaves.",
)
@server_options
def command(
    detach: bool, dry_run: bool, quiet: bool, on_interrupt: str, choice: Choice, **given: Any
) -> None:
    """Run a command when there is room for it, and show what it writes.

    It becomes a Job that waits in a queue until its whole quota is free. While it waits you are
    told why; when it runs you see its log; the exit status is its own.

    \b
    Examples:
      kuota run -q research --gpus 2 --priority high -- python train.py
      kuota run -q research --cpus 4 --memory 8Gi --parallelism 4 -- ./simulate
      kuota run -q research --detach --name nightly -- make all
    """
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
