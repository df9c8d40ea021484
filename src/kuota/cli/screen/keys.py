# SPDX-License-Identifier: Apache-2.0
"""Turns the bytes of a terminal into keys. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"
HOME, END, ENTER, ESCAPE, BACKSPACE = "home", "end", "enter", "escape", "backspace"

_ESC = "\x1b"
_SEQUENCES = {
    "[A": UP,
    "[B": DOWN,
    "[5~": PAGE_UP,
    "[6~": PAGE_DOWN,
    "[H": HOME,
    "[F": END,
    "[1~": HOME,
    "[4~": END,
    "OA": UP,
    "OB": DOWN,
    "OH": HOME,
    "OF": END,
    "[D": ESCAPE,
    "OD": ESCAPE,
    "[C": ENTER,
    "OC": ENTER,
}
"""What terminals send after ESC. The arrows to the left and right go back and open."""
_SINGLE = {
    "\r": ENTER,
    "\n": ENTER,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x04": PAGE_DOWN,
    "\x15": PAGE_UP,
}
_LONGEST = 16


class Keys:
    """Decodes what a terminal sends. A sequence may come in pieces, as over a slow connection."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""

    def feed(self, data: bytes) -> list[str]:
        """Return the keys: a name such as `up`, or the character. Unknown sequences are dropped."""
        self._text += self._decoder.decode(data)
        return list(self._taken())

    @property
    def incomplete(self) -> bool:
        """Whether a sequence may have begun: call `flush` if nothing follows."""
        return bool(self._text)

    def flush(self) -> list[str]:
        """Return the Escape key if nothing followed it."""
        text, self._text = self._text, ""
        return [ESCAPE] if text else []

    def _taken(self) -> Iterator[str]:
        while self._text:
            if self._text[0] != _ESC:
                key, self._text = self._text[0], self._text[1:]
                if key in _SINGLE or key.isprintable():
                    yield _SINGLE.get(key, key)
                continue
            end = _end_of_sequence(self._text)
            if end is None:
                return
            sequence, self._text = self._text[1:end], self._text[end:]
            if sequence in _SEQUENCES:
                yield _SEQUENCES[sequence]
            elif not sequence:
                yield ESCAPE


def _end_of_sequence(text: str) -> int | None:
    """Return where the sequence at the beginning of the text ends; None if it is incomplete."""
    if len(text) == 1:
        return None
    if text[1] == "O":
        return 3 if len(text) > 2 else None
    if text[1] != "[":
        # Escape, followed by another key.
        return 1
    for at, each in enumerate(text[2:_LONGEST], start=2):
        if "@" <= each <= "~":
            return at + 1
    return None if len(text) < _LONGEST else len(text)
