# SPDX-License-Identifier: Apache-2.0
"""Where the user is: the page, the selected row, filter and order. Pure: keys in, state out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from . import keys


class ScreenPage(StrEnum):
    QUOTA = "Quota"
    JOBS = "Jobs"
    QUEUE = "Queue"
    JOB = "Job"
    LOG = "Log"
    HELP = "Help"


class Order(StrEnum):
    """What jobs are sorted by."""

    STATE = "state"
    NAME = "name"
    QUEUE = "queue"
    PRIORITY = "priority"
    AGE = "age"


_OPENS = {
    ScreenPage.QUOTA: ScreenPage.QUEUE,
    ScreenPage.QUEUE: ScreenPage.JOB,
    ScreenPage.JOBS: ScreenPage.JOB,
    ScreenPage.JOB: ScreenPage.LOG,
}
_MOVES = {keys.UP: -1, "k": -1, keys.DOWN: 1, "j": 1}
FILTERED = (ScreenPage.QUOTA, ScreenPage.JOBS, ScreenPage.QUEUE, ScreenPage.LOG)
"""The pages whose rows can be filtered."""


class SelectedRow:
    """The selected row of a page. It stays on its object while rows come, go and move."""

    def __init__(self) -> None:
        self.index = 0
        self.top = 0
        """The first row on the screen."""
        self._id = ""

    def follow(self, ids: Sequence[str]) -> None:
        """Select the same object again, or the nearest row if it is gone."""
        here = ids[self.index] if self.index < len(ids) else ""
        if self._id and self._id != here and self._id in ids:
            self.index = ids.index(self._id)
        self.move_to(self.index, ids)

    def move_to(self, index: int, ids: Sequence[str]) -> None:
        self.index = max(0, min(index, len(ids) - 1))
        self._id = ids[self.index] if ids else ""

    def scroll(self, height: int, count: int) -> None:
        """Move the window so that it contains the selected row and no empty lines."""
        self.top = max(min(self.top, self.index), self.index - height + 1)
        self.top = max(0, min(self.top, count - height))


class Navigation:
    """The state of the screen. `opened` has the ID that was opened on each page."""

    def __init__(self, *, finished: bool = True) -> None:
        self.page = ScreenPage.QUOTA
        self.finished = finished
        self.order = Order.STATE
        self.reverse = False
        self.editing = False
        self.at_end = True
        """Whether the log follows its end."""
        self.filters: dict[ScreenPage, str] = dict.fromkeys(ScreenPage, "")
        self.opened: dict[ScreenPage, str] = {}
        self.selections = {page: SelectedRow() for page in ScreenPage}
        self._back: list[ScreenPage] = []

    @property
    def filter(self) -> str:
        return self.filters[self.page]

    @property
    def selection(self) -> SelectedRow:
        return self.selections[self.page]

    def press(self, key: str, ids: Sequence[str], page_rows: int) -> bool:
        """Apply a key. `ids` are those of the rows. Returns whether the user wants to quit."""
        if self.editing:
            self._edit(key)
            return False
        if key in ("q", "Q"):
            return True
        if not self._moved(key, ids, page_rows):
            self._command(key, ids)
        return False

    def _edit(self, key: str) -> None:
        if key == keys.ENTER:
            self.editing = False
        elif key == keys.ESCAPE:
            self.editing, self.filters[self.page] = False, ""
        elif key == keys.BACKSPACE:
            self.filters[self.page] = self.filter[:-1]
        elif len(key) == 1:
            self.filters[self.page] += key

    def _moved(self, key: str, ids: Sequence[str], page_rows: int) -> bool:
        now = self.selection.index
        targets = {
            keys.PAGE_UP: now - page_rows,
            keys.PAGE_DOWN: now + page_rows,
            keys.HOME: 0,
            "g": 0,
            keys.END: len(ids),
            "G": len(ids),
        } | {each: now + step for each, step in _MOVES.items()}
        if key not in targets:
            return False
        self.selection.move_to(targets[key], ids)
        self.at_end = self.selection.index >= len(ids) - 1
        return True

    def _command(self, key: str, ids: Sequence[str]) -> None:
        match key:
            case keys.ENTER:
                self._open(ids)
            case keys.ESCAPE | keys.BACKSPACE:
                self._leave()
            case "1":
                self.go(ScreenPage.QUOTA)
            case "2":
                self.go(ScreenPage.JOBS)
            case "?" | "h":
                self.go(ScreenPage.HELP)
            case "/":
                self.editing = self.page in FILTERED
            case "s":
                orders = list(Order)
                self.order = orders[(orders.index(self.order) + 1) % len(orders)]
            case "r":
                self.reverse = not self.reverse
            case "f":
                self.finished = not self.finished
            case "l":
                self._open_log(ids)

    def go(self, page: ScreenPage) -> None:
        """Show a page. Escape returns to the present one."""
        if page is not self.page:
            self._back.append(self.page)
            self.page = page

    def _open(self, ids: Sequence[str]) -> None:
        chosen = ids[self.selection.index] if ids else ""
        page = _OPENS.get(self.page)
        if page is not None and chosen:
            self._show(page, chosen)

    def _open_log(self, ids: Sequence[str]) -> None:
        """Open the log of the selected pod, or of the last one."""
        if self.page is ScreenPage.JOB:
            pods = [each for each in ids if each]
            chosen = ids[self.selection.index] if ids else ""
            if chosen or pods:
                self._show(ScreenPage.LOG, chosen or pods[-1])

    def _show(self, page: ScreenPage, chosen: str) -> None:
        self.opened[page] = chosen
        self.selections[page] = SelectedRow()
        self.filters[page] = ""
        self.at_end = True
        self.go(page)

    def _leave(self) -> None:
        if self.filter:
            self.filters[self.page] = ""
        elif self._back:
            self.page = self._back.pop()
