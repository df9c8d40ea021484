# SPDX-License-Identifier: Apache-2.0
"""Prints objects as JSON, as YAML, by name or in a table, consistently for all commands."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .terminal import echo_raw, escaped

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.kube.resources import Resource

FORMATS = ("json", "yaml")
_GAP = "   "
_FIELD_WIDTH = 13
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""How a formula may begin: also after spaces, and with the full-width forms of the characters."""
_LAST_COLUMN = 40
"""The minimum width of the last column before optional columns are dropped."""


def show(value: Any, form: str) -> None:
    """Print structs, lists and maps in one of FORMATS."""
    import msgspec

    plain = msgspec.to_builtins(value)
    if form == "json":
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        import yaml

        words = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
        if escaped(words) != words:  # Then YAML must escape them, or the value would change.
            words = yaml.safe_dump(plain, sort_keys=False, width=100)
        click.echo(words, nl=False)


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Sequence[str] = ()
) -> None:
    """Print an aligned table with headings and one object per line.

    On a narrow terminal, `optional` columns are dropped in order, and then the last column is
    truncated.
    """
    titles = [each.upper() for each in header]
    lines = [[cell.replace("\n", " ") for cell in row] for row in rows]
    table: list[Sequence[str]] = [titles, *lines]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if width is not None:
        table = _narrowed(table, [each.upper() for each in optional], width)
    widths = _widths(table)
    for number, row in enumerate(table):
        line = _line(row, widths)
        if width is not None and len(line) > width and len(line) - len(row[-1]) < width - 1:
            line = f"{line[: width - 1]}…"
        bold = not number and width is not None
        echo_raw(click.style(escaped(line), bold=True) if bold else escaped(line))


def show_field(name: str, *values: str) -> None:
    """Print a named field with one value per line.

    Further lines of a value are indented more, so that they cannot pass for a value or a field.
    """
    further = f"\n{'':<{_FIELD_WIDTH}}"
    lines = further.join(each.replace("\n", f"{further}  ") for each in values)
    click.echo(f"{name + ':':<{_FIELD_WIDTH}}{lines}")


def show_csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str] = ()) -> None:
    """Print rows as CSV, with the given columns, and one for each other name that any row has.

    A spreadsheet would execute cells that begin like a formula. An apostrophe before them makes
    them text (docs/history.md).
    """
    import csv
    import io

    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        formulas = {name: f"'{each}" for name, each in row.items() if _FORMULA.match(each)}
        writer.writerow({**row, **formulas})
    click.echo(text.getvalue(), nl=False)


def _narrowed(
    table: Sequence[Sequence[str]], optional: Sequence[str], width: int
) -> list[Sequence[str]]:
    """Drop optional columns until the table fits; the last column may be truncated."""
    kept = list(range(len(table[0])))
    for title in optional:
        widths = _widths(table)
        needed = sum(widths[at] + len(_GAP) for at in kept[:-1])
        if needed + min(widths[-1], _LAST_COLUMN) <= width:
            break
        kept = [at for at in kept if table[0][at] != title]
    return [[row[at] for at in kept] for row in table]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip()


def one_line(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_text(resource: Resource, obj: Json) -> str:
    """Return the name in the form `job.batch/train`, which other commands accept."""
    kind = resource.kind.lower()
    return f"{f'{kind}.{resource.group}' if resource.group else kind}/{obj['metadata']['name']}"


def tidied(obj: Json) -> Json:
    """Return the object without managedFields, with apiVersion and kind first."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    head = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    return head | {key: value for key, value in obj.items() if key not in head}
