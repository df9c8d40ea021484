# SPDX-License-Identifier: Apache-2.0
"""Asks the user of a terminal for one letter, and hears Ctrl-C whenever it comes.

`input` misses a Ctrl-C that comes after the question is on the screen and before it reads.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Mapping

import click

_LINE_BYTES = 4096


def answer(question: str, words: Mapping[str, str], default: str) -> str:
    """The word for the letter that the user types; the default for none, Ctrl-C or the end."""
    try:
        while True:
            click.echo(question, err=True, nl=False)
            letter = _line()
            if not letter:
                return default
            if letter in words:
                return words[letter]
            click.echo(f"'{letter}' is none of {', '.join(words)}", err=True)
    except KeyboardInterrupt:
        return default


def _line() -> str:
    """What is typed, without blanks around it. Raises KeyboardInterrupt."""
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
