# SPDX-License-Identifier: Apache-2.0
"""A log whose connection breaks is printed once: no line is repeated or omitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Key
from kuota.cli import log_lines
from kuota.cli.log_lines import Copying, Writer
from kuota.kube.errors import Unreachable
from kuota.kube.requests import LogOptions
from kuota.kube.resources import Resource

Lines = list[tuple[str, str]]


class RecordingWriter(Writer):
    """Keeps what it is to write."""

    def __init__(self) -> None:
        super().__init__()
        self.text = b""

    def write(self, chunk: bytes) -> None:
        self.text += chunk


class TruncatingLog:
    """Serves the log of one pod, and hangs up after so many bytes, each time it is followed.

    Meanwhile the pod goes on: each time, `more` of its lines are there, then all of them.
    """

    def __init__(self, lines: Lines, breaks: list[tuple[int, int]], chunk: int) -> None:
        self._lines = lines
        self._breaks = breaks
        self._chunk = chunk
        self._now = breaks[0][0] if breaks else len(lines)

    async def log(
        self, key: Key, options: LogOptions, *, pods: Resource
    ) -> AsyncGenerator[bytes, None]:
        whole = self._shown(options)
        if not options.follow:
            yield whole
            return
        _, left = self._breaks.pop(0) if self._breaks else (0, None)
        self._now = self._breaks[0][0] if self._breaks else len(self._lines)
        whole += self._rest(options) if left is None else b""
        for at in range(0, len(whole[:left]), self._chunk):
            yield whole[:left][at : at + self._chunk]
        if left is not None:
            raise Unreachable("the line broke")

    def _shown(self, options: LogOptions) -> bytes:
        self._told = self._now
        lines = [each for each in self._lines[: self._now] if each[0][:8] >= options.since_time[:8]]
        return _text(lines[-options.tail :] if options.tail else lines)

    def _rest(self, options: LogOptions) -> bytes:
        """What the pod writes while it is followed to its end."""
        return _text(self._lines[self._told :])


def _text(lines: Lines) -> bytes:
    return "".join(f"{stamp} {text}\n" for stamp, text in lines).encode()


def copied(server: TruncatingLog, options: LogOptions) -> str:
    writer = RecordingWriter()
    session: Any = SimpleNamespace(client=server)
    asyncio.run(Copying(session, Key("default", "pod"), options, writer).run())
    return writer.text.decode()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_RETRY_S", 0.0)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Lines, list[tuple[int, int]], int]:
    """Lines that may share stamps and words, and where the connection breaks."""
    count = draw(st.integers(1, 12))
    steps = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    at, lines = 0, []
    for number, step in enumerate(steps):
        at += step
        stamp = f"00:00:{at // 4:02d}.{at % 4}00000000Z"
        lines.append((stamp, f"line {number}"))
    breaks = draw(st.lists(st.tuples(st.integers(1, count), st.integers(0, 120)), max_size=3))
    return lines, sorted(breaks), draw(st.integers(1, 60))


@given(stories(), st.integers(1, 4))
def test_the_last_lines_and_what_follows_come_once(
    story: tuple[Lines, list[tuple[int, int]], int], tail: int
) -> None:
    lines, breaks, chunk = story
    whole = [text for _, text in lines]
    server = TruncatingLog(lines, list(breaks), chunk)
    got = copied(server, LogOptions(follow=True, tail=tail)).splitlines()
    assert got == whole[len(whole) - len(got) :]
    assert len(got) >= min(tail, len(lines))


def test_lines_of_one_instant_are_distinguished() -> None:
    stamp = "00:00:00.100000000Z"
    lines = [(stamp, "a"), (stamp, "b"), (stamp, "c"), (stamp, "d")]
    broken = 2 * (len(stamp) + 3)
    server = TruncatingLog(lines, [(3, broken)], 7)
    assert "b\nc\nd\n" == copied(server, LogOptions(follow=True, tail=2))


def test_stamps_are_shown_where_they_were_asked_for() -> None:
    lines = [("00:00:00.100000000Z", "a"), ("00:00:01.100000000Z", "b")]
    server = TruncatingLog(lines, [(1, 25)], 7)
    copied_text = copied(server, LogOptions(follow=True, tail=5, timestamps=True))
    assert "00:00:00.100000000Z a\n00:00:01.100000000Z b\n" == copied_text


def test_a_line_that_breaks_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "PATIENCE_S", 0.01)
    server = TruncatingLog([("00:00:00.100000000Z", "a")], [(1, 0)] * 10**5, 7)
    with pytest.raises(Unreachable):
        copied(server, LogOptions(follow=True, tail=5))
