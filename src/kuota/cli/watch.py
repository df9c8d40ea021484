# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: queues and workloads as they change. Without a terminal, as they are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .connect import Choice, conduct, server_options

if TYPE_CHECKING:
    from .session import Session


@click.command("watch")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace.")
@click.option("--finished/--no-finished", default=True, help="Whether to show what is over.")
@click.option("--once", is_flag=True, help="Show it once, and return.")
@server_options
def command(everywhere: bool, finished: bool, once: bool, choice: Choice) -> None:
    """Watch queues and workloads: who runs, who waits, and why. q or Ctrl-C ends it.

    Workloads of all namespaces are shown unless -n names one; those of your own where you may not
    see the others.
    """

    async def work(session: Session) -> None:
        from .live_view import LiveView

        inside = session.namespace if choice.namespace and not everywhere else None
        if inside is None and not everywhere and not await _sees_all(session):
            inside = session.namespace
        view = LiveView(session, inside, finished)
        if once or not sys.stdout.isatty():
            await view.print_once()
        else:
            await view.run()

    conduct(choice, work)


async def _sees_all(session: Session) -> bool:
    from kuota.kube.errors import Forbidden
    from kuota.kube.requests import Selection, listing
    from kuota.kube.resources import WORKLOADS

    try:
        await session.answer(listing(WORKLOADS, Selection(), limit=1))
    except Forbidden:
        return False
    return True
