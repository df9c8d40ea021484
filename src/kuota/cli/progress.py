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
_TIME = len(" (10h59m)") + 1


class Progress:
    """What is going on. A terminal sees one line and how long; others each state once.

    What is too long for one line is kept on the screen, and its first words stand for it.
    """

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet = quiet
        self._tty = sys.stderr.isatty()
        self._clock = clock
        self._text = ""
        self._line = ""
        self._since = clock()
        self._open = False

    def show(self, text: str) -> None:
        """Replace the line; "" takes it away."""
        if text != self._text:
            self._text, self._since = text, self._clock()
            fits = self._tty and len(text) + _TIME <= shutil.get_terminal_size().columns
            self._line = text if fits else text.partition(":")[0]
            if text and not fits:
                self.say(text)
        self.refresh()

    def refresh(self) -> None:
        """Bring the time on the line up to date."""
        if not self._tty or self._quiet:
            return
        if not self._text:
            self.clear()
            return
        waited = self._clock() - self._since
        words = f"{self._line} ({span(waited)})" if waited >= 1 else self._line
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
