# SPDX-License-Identifier: Apache-2.0
"""`kuota status`: whether the control plane of this machine runs, and where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .connect import place_option

if TYPE_CHECKING:
    from kuota.up.place import Place
    from kuota.view.room import Shortage

_PATIENCE_S = 5.0
"""How long the server may take to answer before its status is told without its words."""


@click.command("status")
@place_option
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text")
def command(place: Place, output: str) -> None:
    """Whether the control plane of this machine runs, and where. Exit status 3 if it does not."""
    from kuota.view.room import shortage_words

    from .output import show

    running = place.running()
    shortages = _shortages(place) if running is not None else None
    facts = {
        "running": running is not None,
        "state": str(place.root),
        "kubeconfig": str(place.kubeconfig),
        "pid": running.pid if running else None,
        "server": f"https://127.0.0.1:{running.port}" if running else None,
        "shortages": shortages,
    }
    if output != "text":
        show(facts, output)
    elif running is None:
        click.echo(f"nothing runs from {place.root}; start it with `kuota up`")
    else:
        click.echo(f"Kuota {running.version} runs (pid {running.pid}) on {facts['server']}")
        if os.access(place.kubeconfig, os.R_OK):
            click.echo(f"  export KUBECONFIG={place.kubeconfig}")
        else:
            click.echo("  it is not yours: it knows you by your uid, and kubectl needs a token")
        for each in shortages or ():
            click.echo(f"  {shortage_words(each)}")
    if running is None:
        raise SystemExit(3)


def _shortages(place: Place) -> list[Shortage] | None:
    """Where its queues offer more than it has, None if it does not say."""
    import asyncio

    from kuota.kube.errors import KubeError

    from . import room
    from .connect import connection_to
    from .session import opened

    async def asked() -> list[Shortage]:
        async with asyncio.timeout(_PATIENCE_S), opened(connection_to(place)) as session:
            return await room.found(session)

    try:
        return asyncio.run(asked())
    except (KubeError, TimeoutError):
        return None
