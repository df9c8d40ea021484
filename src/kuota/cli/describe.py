# SPDX-License-Identifier: Apache-2.0
"""`kuota describe`: an object in full, why it waits, and what has happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .connect import FAILED, Choice, conduct, server_options

if TYPE_CHECKING:
    from .session import Session


@click.command("describe")
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]... | KIND/NAME...")
@click.option("-l", "--selector", default="", metavar="LABELS", help="All with these labels.")
@server_options
def command(what: tuple[str, ...], selector: str, choice: Choice) -> None:
    """Tell all about objects; of Jobs and Workloads also why they wait.

    \b
    Examples:
      kuota describe job train
      kuota describe workload/job-train-1b2c3
      kuota describe cq team-a
    """

    async def work(session: Session) -> int:
        from .description import objects_of, printed

        found, missing = await objects_of(session, what, selector)
        for number, (resource, obj) in enumerate(found):
            if number:
                click.echo("\n")
            await printed(session, resource, obj)
        for each in missing:
            click.echo(f"Error: {each}", err=True)
        if not found and not missing:
            click.echo("Nothing found.", err=True)
        return FAILED if missing else 0

    conduct(choice, work)
