# SPDX-License-Identifier: Apache-2.0
"""`kuota backup` and `kuota restore`: all objects of this machine's control plane, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .connect import place_option

if TYPE_CHECKING:
    from kuota.up.place import Place


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@place_option
def command(file: Path, place: Place) -> None:
    """Copy all objects of this machine's control plane to FILE, for `kuota restore`.

    Works while it runs, without stopping anything, and while it does not. FILE holds everything as
    it was at one instant, Secrets too, so only you can read it; it takes the place of an earlier
    backup. Tokens, logs and the files of pods are not in it. Exit status 1 if nothing was written.
    """
    from kuota.server.store_copies import back_up
    from kuota.server.store_schema import StoreError

    try:
        back_up(str(place.store), str(file))
    except StoreError as error:
        raise click.ClickException(f"no backup was made: {error}") from error
    except OSError as error:
        raise click.ClickException(f"no backup was made: {file}: {error.strerror}") from error
    click.echo(f"{file}: {file.stat().st_size / 1024:,.0f} KiB")


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@place_option
def restore(file: Path, place: Place) -> None:
    """Let this machine's control plane go on from FILE, which `kuota backup` wrote.

    Not while it runs. The objects that were there are kept in a file beside; the next `kuota up`
    takes up what FILE holds, and ends processes whose pods it does not know. Exit status 1 if
    nothing was changed.
    """
    from datetime import UTC, datetime

    from kuota.server import store_copies
    from kuota.server.store_schema import StoreError

    running = place.running()
    if running is not None:
        raise click.ClickException(
            f"it runs from {place.root} (pid {running.pid}): end it with `kuota down` first"
        )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    try:
        place.prepare()
        old = store_copies.restore(str(file), str(place.store), stamp)
    except (StoreError, OSError) as error:
        raise click.ClickException(f"nothing was restored: {error}") from error
    click.echo(f"Restored {file} to {place.store}; `kuota up` goes on from there.")
    if old is not None:
        click.echo(f"  what was there: {old}")
