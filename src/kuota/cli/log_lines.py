# SPDX-License-Identifier: Apache-2.0
"""Writes the logs of several pods to standard output without mixing their lines.

A log that is requested by number of lines or by age starts at a different place in each request,
so a byte offset cannot resume it after a disconnect. Such a log resumes by timestamp, and by the
number of lines with that timestamp.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.kube.errors import NotFound, Unreachable
from kuota.kube.requests import LogOptions
from kuota.kube.resources import PODS, Resource, key_of

from .session import until

if TYPE_CHECKING:
    from .session import Session


class _LogPosition(msgspec.Struct, frozen=True):
    """A position in a log: `into` bytes into the text of the `nth` line with this timestamp."""

    stamp: bytes = b""
    nth: int = 0
    into: int = 0

    @property
    def line(self) -> tuple[bytes, bytes, int]:
        """Return a sort key for the line. It does not depend on the precision of the timestamp."""
        seconds, _, fraction = self.stamp.removesuffix(b"Z").partition(b".")
        return seconds, fraction.ljust(9, b"0"), self.nth


class StampedLog:
    """Removes duplicates from a log with timestamps, which are part of the output if `shown`."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._spot = _LogPosition()
        self._seen = _LogPosition()
        self._fresh_line = True
        self._head = b""
        self._first: list[bytes] | None = []
        """The lines so far while all have one timestamp: omitted earlier lines may have it too."""

    @property
    def since(self) -> str:
        """Return the time from which to request the log again; empty before the first line.

        The precision is one second, because some servers support no finer one.
        """
        stamp = max(self._spot, self._seen, key=lambda each: each.line).stamp
        seconds = stamp.partition(b".")[0].removesuffix(b"Z").decode()
        return f"{seconds}Z" if seconds else ""

    @property
    def uncertain(self) -> bool:
        """Whether omitted lines may have the same timestamp as the lines received."""
        return bool(self._first)

    def place(self, text: bytes) -> None:
        """Count the omitted lines. `text` is the current log from `since` on."""
        stamp, seen = self._spot.stamp, self._first or []
        begin = stamp + b" "
        lines = [line + b"\n" for line in text.split(b"\n")]
        texts = [line.removeprefix(begin) for line in lines if line.startswith(begin)]
        for left_out in range(len(texts) - len(seen), 0, -1):
            *whole, last = texts[left_out : left_out + len(seen)]
            if whole == seen[:-1] and last.startswith(seen[-1]):
                self._spot = _LogPosition(stamp, self._spot.nth + left_out, self._spot.into)
                break
        self._first = None

    def begin_anew(self) -> None:
        """Prepare to receive the log again from `since` on."""
        self._seen = max(self._seen, self._spot, key=lambda each: (each.line, each.into))
        self._spot = _LogPosition()
        self._fresh_line = True
        self._head = b""

    def fresh(self, chunk: bytes) -> bytes:
        """Return the part of the chunk that was not received before."""
        text, self._head = self._head + chunk, b""
        parts = []
        while text:
            line, newline, text = text.partition(b"\n")
            parts.append(self._fresh(line + newline))
        return b"".join(parts)

    def _fresh(self, piece: bytes) -> bytes:
        """Return the new part of one line, which may be incomplete."""
        lead, rest = b"", piece
        if self._fresh_line:
            stamp, space, rest = piece.partition(b" ")
            if not space and not piece.endswith(b"\n"):
                self._head = piece
                return b""
            same = stamp == self._spot.stamp
            self._spot = _LogPosition(stamp, self._spot.nth + 1 if same else 1)
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


PATIENCE_S = 30.0
"""How long a server may be unreachable: long enough for a restart."""
_RETRY_S = 0.2
_LONGEST_PAUSE_S = 2.0
_WORKED_S = 1.0
"""A connection that lasted this long counts as successful, even without output."""


class Writer:
    """Standard output, shared by the logs of several pods. Each line gets the prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix.encode()
        self._rest = b""

    def write(self, chunk: bytes) -> None:
        if not self._prefix:
            _out(chunk)
            return
        *ended, self._rest = (self._rest + chunk).split(b"\n")
        if ended:
            _out(b"".join(self._prefix + line + b"\n" for line in ended))

    def close(self) -> None:
        """Write the last line, which may have no newline."""
        if self._rest:
            _out(self._prefix + self._rest + b"\n")
            self._rest = b""


def _out(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


class _ReconnectDelay:
    """Exponential backoff for reconnecting."""

    def __init__(self) -> None:
        self._failures = 0
        self._since = 0.0

    def begin(self, seen: int) -> None:
        self._begun, self._seen = time.monotonic(), seen

    def pause_s(self, seen: int) -> float | None:
        """Return the delay after a failed attempt; None after PATIENCE_S without success."""
        now = time.monotonic()
        if not self._failures or seen > self._seen or now - self._begun > _WORKED_S:
            self._failures, self._since = 0, now
        self._failures += 1
        if now - self._since > PATIENCE_S:
            return None
        return float(min(_LONGEST_PAUSE_S, _RETRY_S * 2 ** (self._failures - 1)))


class Copying:
    """Copies one log to standard output. After a disconnect, it resumes where it stopped."""

    def __init__(
        self,
        session: Session,
        key: Key,
        options: LogOptions,
        writer: Writer | None = None,
        pods: Resource = PODS,
    ) -> None:
        self._session = session
        self._key = key
        self._pods = pods
        self._options = options
        self._writer = writer or Writer()
        self._seen = 0
        self._stamped: StampedLog | None = None
        if options.tail is not None or options.since_s is not None:
            self._stamped = StampedLog(shown=options.timestamps)
            self._options = msgspec.structs.replace(options, timestamps=True)

    @property
    def silent(self) -> bool:
        """Whether no output has been received."""
        return not self._seen

    async def run(self) -> None:
        """Copy the log to its end.

        Raises NotFound if the pod was deleted before any output, BadRequest if it has not
        started, and Unreachable if the server does not respond for PATIENCE_S.
        """
        patience = _ReconnectDelay()
        while True:
            patience.begin(self._seen)
            try:
                await self._copy()
                break
            except NotFound:
                if not self._seen:
                    raise
                break
            except Unreachable:
                if (pause_s := patience.pause_s(self._seen)) is None:
                    raise
                await asyncio.sleep(pause_s)
        self._writer.close()

    def _log(self, options: LogOptions) -> AsyncGenerator[bytes, None]:
        return self._session.client.log(self._key, options, pods=self._pods)

    async def _copy(self) -> None:
        """Write the part of the log that was not written before."""
        total = 0
        async with aclosing(self._log(await self._asked())) as chunks:
            async for chunk in chunks:
                if self._stamped is not None:
                    fresh = self._stamped.fresh(chunk)
                    self._seen += len(fresh)
                else:
                    fresh = chunk[max(0, self._seen - total) :]
                    total += len(chunk)
                    self._seen = max(self._seen, total)
                if fresh:
                    self._writer.write(fresh)

    async def _asked(self) -> LogOptions:
        """Return the options of the next request, which skips most of what is written."""
        stamped = self._stamped
        if stamped is None:
            return self._options
        again = self._options
        if since := stamped.since:
            again = msgspec.structs.replace(again, tail=None, since_s=None, since_time=since)
        if since and stamped.uncertain:
            now = msgspec.structs.replace(again, follow=False)
            async with aclosing(self._log(now)) as chunks:
                stamped.place(b"".join([chunk async for chunk in chunks]))
        stamped.begin_anew()
        return again


def begun(pod: Json, container: str = "") -> bool:
    """Whether the container has started: it is running or has terminated."""
    status = pod.get("status") or {}
    fields = ("containerStatuses", "initContainerStatuses") if container else ("containerStatuses",)
    for each in [one for field in fields for one in status.get(field) or ()]:
        now = each.get("state") or {}
        if container in ("", each.get("name")) and ({"running", "terminated"} & now.keys()):
            return True
    return is_terminated(pod)


async def until_begun(session: Session, pod: Json, container: str = "") -> Json:
    """Return the pod once its container has started. Raises NotFound if it is deleted first."""
    key = key_of(pod)
    found = await until(session.client, PODS, key, lambda each: not each or begun(each, container))
    if found is None:
        raise NotFound(404, "NotFound", f"pod {key} was deleted before it began")
    return found
