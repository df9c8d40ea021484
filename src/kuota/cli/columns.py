# SPDX-License-Identifier: Apache-2.0
"""Rows of text under headings, aligned, for people and for `awk`: one object a line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

GAP = "   "
NOTHING = "<none>"


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column has to be."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []


def line(cells: Sequence[str], across: Sequence[int]) -> str:
    """One row. Cells wider than their column push the others on."""
    padded = [cell.ljust(width) for cell, width in zip(cells, across, strict=False)]
    return GAP.join(padded).rstrip()


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Print a table; returns its widths, for rows that may follow."""
    titles = [each.upper() for each in header]
    across = widths([titles, *rows])
    heading = line(titles, across)
    click.echo(click.style(heading, bold=True) if sys.stdout.isatty() else heading)
    for row in rows:
        click.echo(line(row, across))
    return across


def cell(value: object) -> str:
    """A value of the server's as text on one line."""
    if value is None or value == "":
        return NOTHING if value is None else ""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).split())
