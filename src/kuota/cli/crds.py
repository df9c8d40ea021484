# SPDX-License-Identifier: Apache-2.0
"""`kuota crds`: prints the CustomResourceDefinitions, writes them to files, or checks the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import yaml

from kuota.api.base import Json
from kuota.api.crds import VERSIONS, crds

_HEADER = (
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Generated from kuota.api; do not edit. To renew: python -m kuota.cli.crds --write DIR\n"
)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("crds")
@click.option("--version", type=click.Choice(VERSIONS), help="Serve one API version only.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
)
@click.option("--write", type=_FOLDER, metavar="DIR", help="Write one file per kind there.")
@click.option("--check", type=_FOLDER, metavar="DIR", help="Fail if the files there are stale.")
def command(version: str | None, output: str, write: Path | None, check: Path | None) -> None:
    """Print the CustomResourceDefinitions of all kinds, ready for `kubectl apply -f -`.

    \b
    Example:
      kuota crds | kubectl apply --server-side -f -
    """
    definitions = crds(version)
    if write is not None:
        _write(write, definitions)
    elif check is not None:
        _check(check, definitions)
    elif output == "json":
        everything = {"apiVersion": "v1", "kind": "List", "items": definitions}
        click.echo(json.dumps(everything, indent=2))
    else:
        click.echo("---\n".join(_text(each) for each in definitions), nl=False)


def _text(definition: Json) -> str:
    return yaml.safe_dump(definition, sort_keys=True, width=100, allow_unicode=True)


def _files(definitions: list[Json]) -> dict[str, str]:
    return {
        f"{each['spec']['names']['plural']}.yaml": _HEADER + _text(each) for each in definitions
    }


def _write(folder: Path, definitions: list[Json]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _files(definitions).items():
        (folder / name).write_text(text)


def _check(folder: Path, definitions: list[Json]) -> None:
    stale = sorted(_stale(folder, _files(definitions)))
    if stale:
        raise click.ClickException(
            f"stale in {folder}: {', '.join(stale)}; "
            f"run `python -m kuota.cli.crds --write {folder}` and look at the diff"
        )


def _stale(folder: Path, files: dict[str, str]) -> Iterator[str]:
    found = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    for name in {*files, *found}:
        if files.get(name) != found.get(name):
            yield name


if __name__ == "__main__":
    command()
