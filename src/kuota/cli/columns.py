# SPDX-License-Identifier: Apache-2.0
"""Rows of text under headings, aligned, for people and for `awk`: one object a line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

_GAP = "   "


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    titles = [each.upper() for each in header]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    heading = _line(titles, widths)
    click.echo(click.style(heading, bold=True) if sys.stdout.isatty() else heading)
    for row in rows:
        click.echo(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip()


def cell(text: str) -> str:
    """A text of the server's on one line."""
    return " ".join(text.split())
