# SPDX-License-Identifier: Apache-2.0
"""Progress messages and questions on standard error."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping

import click

from kuota.view.live import span

from .terminal import echo_raw, escaped

_CLEAR = "\r\x1b[K"
_TIME = len(" (10h59m)") + 1


class Progress:
    """Progress of a command: one updated line on a terminal, otherwise one line per state.

    A message that is too long for the line is printed once, and the line shows its first words.
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
        """Replace the line; "" removes it."""
        if text != self._text:
            self._text, self._since = text, self._clock()
            fits = self._tty and len(text) + _TIME <= shutil.get_terminal_size().columns
            self._line = text if fits else text.partition(":")[0]
            if text and not fits:
                self.say(text)
        self.refresh()

    def refresh(self) -> None:
        """Update the elapsed time."""
        if not self._tty or self._quiet:
            return
        if not self._text:
            self.clear()
            return
        waited = self._clock() - self._since
        words = f"{self._line} ({span(waited)})" if waited >= 1 else self._line
        width = shutil.get_terminal_size().columns
        echo_raw(f"{_CLEAR}{escaped(words)[: width - 1]}", err=True, nl=False)
        self._open = True

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._open:
            echo_raw(_CLEAR, err=True, nl=False)
            self._open = False

    def say(self, text: str) -> None:
        """Print a message that stays on the screen."""
        self.clear()
        if not self._quiet:
            click.echo(text, err=True)


_LINE_BYTES = 4096


def answer(question: str, words: Mapping[str, str], default: str) -> str:
    """Return the choice whose letter the user types; the default for Enter, Ctrl-C or EOF."""
    try:
        while True:
            click.echo(question, err=True, nl=False)
            letter = _line()
            if not letter:
                return default
            if letter in words:
                return words[letter]
            click.echo(f"'{letter}' is not one of {', '.join(words)}", err=True)
    except KeyboardInterrupt:
        return default


def _line() -> str:
    """Return the line that the user types, stripped. Raises KeyboardInterrupt."""
    bell, ringer = socket.socketpair()
    with bell, ringer:
        ringer.setblocking(False)
        # In this order: whoever is interrupted before the bell hangs is interrupted as ever.
        old = signal.set_wakeup_fd(ringer.fileno())
        before = signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            ready, _, _ = select.select([0, bell.fileno()], [], [])
        finally:
            signal.set_wakeup_fd(old)
            signal.signal(signal.SIGINT, before)
        if bell.fileno() in ready:
            click.echo(err=True)
            raise KeyboardInterrupt
        return os.read(0, _LINE_BYTES).decode(errors="replace").strip().lower()
