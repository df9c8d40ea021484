# SPDX-License-Identifier: Apache-2.0
"""Follows the log of one pod for the screen."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from kuota.api.base import Key
from kuota.kube.errors import KubeError
from kuota.kube.requests import LogOptions

if TYPE_CHECKING:
    from ..session import Session

MOST_LINES = 10_000
_TAIL = 1_000
_LONGEST = 2_000


class LogReader:
    """The last lines of a log while `run` is running. `note` says why there are no more."""

    def __init__(self, session: Session, pod: Key, changed: Callable[[], None]) -> None:
        self.pod = pod
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self.note = "reading"
        self._session = session
        self._changed = changed
        self._rest = ""

    async def run(self) -> None:
        """Read until the log ends, cannot be read, or the task is cancelled."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        options = LogOptions(follow=True, tail=_TAIL)
        try:
            async with aclosing(self._session.client.log(self.pod, options)) as pieces:
                self._note("followed")
                async for piece in pieces:
                    self._add(decoder.decode(piece))
            self._add("\n" if self._rest else "")
            self._note("ended")
        except KubeError as error:
            self._note(f"cannot be read: {error}")

    def _add(self, text: str) -> None:
        *whole, self._rest = f"{self._rest}{text}".split("\n")
        self._rest = self._rest[-_LONGEST:]
        self.lines.extend(line.rstrip("\r").expandtabs()[:_LONGEST] for line in whole)
        self._changed()

    def _note(self, text: str) -> None:
        self.note = text
        self._changed()
