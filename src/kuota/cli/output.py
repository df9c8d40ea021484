# SPDX-License-Identifier: Apache-2.0
"""Prints objects as JSON, as YAML, by name or in a table, the same way for every command."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.kube.resources import Resource

FORMATS = ("json", "yaml")
_GAP = "   "


def show(value: Any, form: str) -> None:
    """Print structs, lists and maps in one of FORMATS."""
    import msgspec

    plain = msgspec.to_builtins(value)
    if form == "json":
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        import yaml

        words = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
        click.echo(words, nl=False)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under headings, aligned: one object a line."""
    titles = [each.upper() for each in header]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    heading = _line(titles, widths)
    click.echo(click.style(heading, bold=True) if sys.stdout.isatty() else heading)
    for row in rows:
        click.echo(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip()


def one_line(text: str) -> str:
    """A text of the server's on one line."""
    return " ".join(text.split())


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_text(resource: Resource, obj: Json) -> str:
    """`job.batch/train`: what other commands take back."""
    kind = resource.kind.lower()
    return f"{f'{kind}.{resource.group}' if resource.group else kind}/{obj['metadata']['name']}"


def tidied(obj: Json) -> Json:
    """The object without its managedFields, which are for programs; apiVersion and kind first."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    head = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    return head | {key: value for key, value in obj.items() if key not in head}
