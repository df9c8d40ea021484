# SPDX-License-Identifier: Apache-2.0
"""Says on standard error what a command waits for: one line that changes, or a line a change."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import click

from kuota.view.live import span

_CLEAR = "\r\x1b[K"


class Progress:
    """What is going on. A terminal sees one line and how long; others each state once."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._tty = sys.stderr.isatty()
        self._clock = clock
        self._text = ""
        self._since = clock()
        self._open = False

    def show(self, text: str) -> None:
        """Replace the line; "" takes it away."""
        if text != self._text:
            self._text, self._since = text, self._clock()
            if text and not self._tty and not self._quiet:
                click.echo(text, err=True)
        self.refresh()

    def refresh(self) -> None:
        """Bring the time on the line up to date."""
        if not self._tty or self._quiet:
            return
        if not self._text:
            self.clear()
            return
        waited = self._clock() - self._since
        words = f"{self._text} ({span(waited)})" if waited >= 1 else self._text
        width = shutil.get_terminal_size().columns
        click.echo(f"{_CLEAR}{words[: width - 1]}", err=True, nl=False)
        self._open = True

    def clear(self) -> None:
        """Leave no half line on the terminal."""
        if self._open:
            click.echo(_CLEAR, err=True, nl=False)
            self._open = False

    def say(self, text: str) -> None:
        """Something to keep on the screen."""
        self.clear()
        if not self._quiet:
            click.echo(text, err=True)
