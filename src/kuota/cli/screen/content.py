# SPDX-License-Identifier: Apache-2.0
"""What a page shows: a title, columns and rows. Rows with an ID can be opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

WIDE = 100
USUAL = 80
"""Widths from which columns are shown that are useful, but not necessary."""


class ScreenColumn(NamedTuple):
    """A column. Narrower screens than `least` omit it; `fills` takes the remaining width."""

    title: str
    right: bool = False
    least: int = 0
    fills: bool = False


Cells = Sequence[str | Text]


class ScreenRow(NamedTuple):
    """One line. `id` is what Enter opens: a queue, a job or a pod; "" if there is nothing.

    Of thousands of rows a few are visible, so cells may be computed when they are drawn.
    """

    cells: Cells | Callable[[], Cells]
    id: str = ""

    def drawn(self) -> Cells:
        """Return the cells."""
        return self.cells() if callable(self.cells) else self.cells


class ScreenContent(NamedTuple):
    """A page. `empty` is shown if there are no rows. `last` shows the end first, as logs do."""

    title: Text
    columns: Sequence[ScreenColumn]
    rows: Sequence[ScreenRow]
    empty: str = ""
    last: bool = False
