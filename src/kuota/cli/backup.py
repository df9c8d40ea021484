# SPDX-License-Identifier: Apache-2.0
"""`kuota backup`: copy all objects of this machine's control plane to a file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--state",
    type=click.Path(path_type=Path, readable=False),
    help="Where `kuota up` keeps everything.",
)
def command(file: Path, state: Path | None) -> None:
    """Copy all objects of this machine's control plane to FILE, for `kuota restore`.

    Works while it runs, without stopping anything, and while it does not. FILE holds everything as
    it was at one instant, Secrets too, so only you can read it; it takes the place of an earlier
    backup. Tokens, logs and the files of pods are not in it. Exit status 1 if nothing was written.
    """
    from kuota.server.store_copies import back_up
    from kuota.server.store_errors import StoreError
    from kuota.up.place import Place, default_place

    place = Place(state) if state is not None else default_place()
    try:
        back_up(str(place.store), str(file))
    except StoreError as error:
        raise click.ClickException(f"no backup was made: {error}") from error
    except OSError as error:
        raise click.ClickException(f"no backup was made: {file}: {error.strerror}") from error
    click.echo(f"{file}: {file.stat().st_size / 1024:,.0f} KiB")
