# SPDX-License-Identifier: Apache-2.0
"""Takes the time stamps off a log's lines, and finds its place again when the log comes anew.

A log that was asked for by its last lines, or by age, begins elsewhere each time it is asked for,
so bytes cannot be counted. Lines can: by their stamp, and by how many there were with that stamp.
"""

from __future__ import annotations

import msgspec


class _Spot(msgspec.Struct, frozen=True):
    """A place in a log: so far into the text of the `nth` line with this stamp."""

    stamp: bytes = b""
    nth: int = 0
    into: int = 0

    @property
    def line(self) -> tuple[bytes, bytes, int]:
        """The line, as lines sort, however many digits their stamps have."""
        seconds, _, fraction = self.stamp.removesuffix(b"Z").partition(b".")
        return seconds, fraction.ljust(9, b"0"), self.nth


class StampedLog:
    """What is new in each chunk of a log whose lines have stamps; these are shown if `shown`."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._spot = _Spot()
        self._seen = _Spot()
        self._fresh_line = True
        self._head = b""
        self._first: list[bytes] | None = []
        """The lines so far, as long as they all have one stamp: others before may have it too."""

    @property
    def since(self) -> str:
        """From when to ask for the log anew, empty if nothing came yet.

        To the second: some servers know no finer.
        """
        stamp = max(self._spot, self._seen, key=lambda each: each.line).stamp
        seconds = stamp.partition(b".")[0].removesuffix(b"Z").decode()
        return f"{seconds}Z" if seconds else ""

    @property
    def uncertain(self) -> bool:
        """Whether lines may have been left out that look as old as those that came."""
        return bool(self._first)

    def place(self, text: bytes) -> None:
        """Count the lines that were left out, given the log from `since` on as it is now."""
        stamp, seen = self._spot.stamp, self._first or []
        begin = stamp + b" "
        lines = [line + b"\n" for line in text.split(b"\n")]
        texts = [line.removeprefix(begin) for line in lines if line.startswith(begin)]
        for left_out in range(len(texts) - len(seen), 0, -1):
            *whole, last = texts[left_out : left_out + len(seen)]
            if whole == seen[:-1] and last.startswith(seen[-1]):
                self._spot = _Spot(stamp, self._spot.nth + left_out, self._spot.into)
                break
        self._first = None

    def begin_anew(self) -> None:
        """The log comes again, from `since` on."""
        self._seen = max(self._seen, self._spot, key=lambda each: (each.line, each.into))
        self._spot = _Spot()
        self._fresh_line = True
        self._head = b""

    def fresh(self, chunk: bytes) -> bytes:
        """The part of the chunk that did not come before."""
        text, self._head = self._head + chunk, b""
        parts = []
        while text:
            line, newline, text = text.partition(b"\n")
            parts.append(self._fresh(line + newline))
        return b"".join(parts)

    def _fresh(self, piece: bytes) -> bytes:
        """What is new of one line, or of a part of it."""
        lead, rest = b"", piece
        if self._fresh_line:
            stamp, space, rest = piece.partition(b" ")
            if not space and not piece.endswith(b"\n"):
                self._head = piece
                return b""
            same = stamp == self._spot.stamp
            self._spot = _Spot(stamp, self._spot.nth + 1 if same else 1)
            lead = stamp + space if self._shown else b""
        self._remember(rest)
        self._fresh_line = rest.endswith(b"\n")
        before = self._spot.into
        self._spot = msgspec.structs.replace(self._spot, into=before + len(rest))
        if self._spot.line > self._seen.line:
            return lead + rest
        return rest[max(0, self._seen.into - before) :] if self._on_seen_line() else b""

    def _on_seen_line(self) -> bool:
        return self._spot.line == self._seen.line

    def _remember(self, rest: bytes) -> None:
        if self._first is None:
            return
        if not self._fresh_line:
            self._first[-1] += rest
        elif self._spot.nth == len(self._first) + 1:
            self._first.append(rest)
        else:
            self._first = None
