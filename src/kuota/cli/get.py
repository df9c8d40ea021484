# SPDX-License-Identifier: Apache-2.0
"""`kuota get`: objects of the server, as its own tables or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .connect import Choice, conduct, server_options

if TYPE_CHECKING:
    from kuota.kube.resources import Resource

    from .session import Session
    from .shown import Wanted

OUTPUTS = ("table", "wide", "json", "yaml", "name")


@click.command("get")
@click.argument("what", nargs=-1, required=True, metavar="KIND[,KIND] [NAME]... | KIND/NAME...")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only with these labels.")
@click.option("--field-selector", default="", metavar="FIELDS", help="Only with these fields.")
@click.option("-w", "--watch", "follow", is_flag=True, help="Go on, and show what changes.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@click.option("--ignore-not-found", is_flag=True, help="Say nothing of names that are missing.")
@server_options
def command(
    what: tuple[str, ...],
    output: str,
    everywhere: bool,
    selector: str,
    field_selector: str,
    follow: bool,
    no_headers: bool,
    ignore_not_found: bool,
    choice: Choice,
) -> None:
    """Show objects of any kind the server has.

    \b
    Examples:
      kuota get workloads
      kuota get cq,lq -A
      kuota get job train -o yaml
      kuota get workloads -w
    """

    async def work(session: Session) -> int:
        from .kinds import named
        from .shown import Wanted

        chosen = await named(session, what)
        wanted = Wanted(
            output=output,
            everywhere=everywhere,
            labels=selector,
            fields=field_selector,
            headers=not no_headers,
            lenient=ignore_not_found,
        )
        if follow:
            await _watch(session, chosen, wanted)
            return 0
        return await _show(session, chosen, wanted)

    conduct(choice, work)


async def _show(session: Session, chosen: list[tuple[Resource, list[str]]], wanted: Wanted) -> int:
    from . import shown

    if wanted.output in ("json", "yaml", "name"):
        return await shown.objects(session, chosen, wanted)
    return await shown.tables(session, chosen, wanted)


async def _watch(
    session: Session, chosen: list[tuple[Resource, list[str]]], wanted: Wanted
) -> None:
    from .following import followed

    if len(chosen) > 1 or len(chosen[0][1]) > 1:
        raise click.UsageError("--watch follows one kind, or one object")
    await followed(session, *chosen[0], wanted)
