# SPDX-License-Identifier: Apache-2.0
"""`kuota status`: whether the control plane of this machine runs, and where."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command("status")
@click.option(
    "--state",
    type=click.Path(path_type=Path, readable=False),
    help="Where `kuota up` keeps everything.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text")
def command(state: Path | None, output: str) -> None:
    """Whether the control plane of this machine runs, and where. Exit status 3 if it does not."""
    from kuota.up.place import Place, default_place

    from .output import show

    place = Place(state) if state is not None else default_place()
    running = place.running()
    facts = {
        "running": running is not None,
        "state": str(place.root),
        "kubeconfig": str(place.kubeconfig),
        "pid": running.pid if running else None,
        "server": f"https://127.0.0.1:{running.port}" if running else None,
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
    if running is None:
        raise SystemExit(3)
