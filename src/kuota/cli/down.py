# SPDX-License-Identifier: Apache-2.0
"""`kuota down`: end the control plane of this machine. Running work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .connect import place_option

if TYPE_CHECKING:
    from kuota.up.place import Place, Running

PATIENCE_S = 30.0


@click.command("down")
@place_option
@click.option("--kill", is_flag=True, help="End running work too.")
def command(place: Place, kill: bool) -> None:
    """End the control plane of this machine.

    Processes that it started go on, and the next `kuota up` takes them up again, unless --kill
    ends them: TERM, and KILL ten seconds later.
    """

    running = place.running()
    if running is None:
        click.echo(f"nothing runs from {place.root}")
    else:
        _stop(place, running)
    if kill:
        if running is not None:
            click.echo("Kuota has stopped.")
        import asyncio

        from kuota.runner.pod_runs import end_all

        count = asyncio.run(end_all(str(place.root)))
        click.echo(f"Ended {count} process{'' if count == 1 else 'es'} of running work.")
    elif running is not None:
        click.echo("Kuota has stopped. Running work goes on.")


def _stop(place: Place, running: Running) -> None:
    """Return when the process has gone, and with it its hold on the store."""
    import os
    import signal
    import time

    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(
            f"pid {running.pid} is not yours to end: ask whoever runs it"
        ) from None
    deadline = time.monotonic() + PATIENCE_S
    while running.alive:
        if time.monotonic() > deadline:
            raise click.ClickException(f"pid {running.pid} does not end; see {place.log}")
        time.sleep(0.05)
