# SPDX-License-Identifier: Apache-2.0
"""Runs the screen: objects and keys in, frames out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from kuota.api.base import Key
from kuota.dashboard.models.tree import tree_model
from kuota.failures import alongside

from ..safe_console import SafeConsole
from .content import ScreenContent
from .frame import body_height, frame, help_content
from .job_page import gone_content, job_content, log_content
from .jobs_page import jobs_content, queue_content
from .keys import Keys
from .log_reader import LogReader
from .navigation import Navigation, ScreenPage
from .objects import FollowedObjects
from .quota_page import queues_content, tree_content

if TYPE_CHECKING:
    from ..session import Session

TICK_S = 1.0
"""How often the displayed ages are updated."""
CALM_S = 0.05
"""Minimum time between frames. Changes come in bursts, and the display would flicker."""
ESCAPE_S = 0.05
"""How long a lone Escape waits for the rest of a sequence."""


class Screen:
    """The full-screen interface. `where` is a namespace; None means all namespaces."""

    def __init__(self, session: Session, where: str | None, finished: bool) -> None:
        self.nav = Navigation(finished=finished)
        self._session = session
        self._console = SafeConsole()
        self._moved = asyncio.Event()
        self._ended = False
        self._objects = FollowedObjects(session, where, self._moved.set)
        self._keys = Keys()
        self._log: LogReader | None = None
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Draw until the user quits."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._quit)
        loop.add_signal_handler(signal.SIGWINCH, self._moved.set)
        work = [each.run() for each in self._objects.informers]
        try:
            async with alongside(*work, self._objects.follow_details(self._opened)):
                await self._draw()
        finally:
            self._close_log()
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_signal_handler(signal.SIGWINCH)

    async def _draw(self) -> None:
        with self._terminal(), Live(console=self._console, screen=True, auto_refresh=False) as live:
            while not self._ended:
                self._moved.clear()
                self._follow_log()
                width, height = self._console.size
                shown = frame(self._page(), self.nav, width, height, self._objects.error)
                live.update(shown, refresh=True)
                await self._next_frame()

    async def _next_frame(self) -> None:
        """Wait for a change, a key, or until the displayed ages are outdated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                await self._moved.wait()
        await asyncio.sleep(CALM_S)

    def _quit(self) -> None:
        self._ended = True
        self._moved.set()

    def _page(self) -> ScreenContent:
        objects, nav, now = self._objects, self.nav, datetime.now(UTC)
        if not objects.ready and not objects.error:
            return ScreenContent(Text("Kuota", style="bold"), (), (), "Asking the server …")
        match nav.page:
            case ScreenPage.QUOTA if objects.where is None:
                return tree_content(tree_model(objects.state), nav.filter)
            case ScreenPage.QUOTA:
                return queues_content(objects.cluster_queues(), nav.filter)
            case ScreenPage.JOBS:
                return jobs_content(objects.rows(), nav, now)
            case ScreenPage.QUEUE:
                name = nav.opened[ScreenPage.QUEUE]
                hidden = objects.hidden(name)
                return queue_content(name, objects.rows(), nav.filter, now, hidden)
            case ScreenPage.JOB:
                model = objects.job(Key.parse(nav.opened[ScreenPage.JOB]))
                return (
                    job_content(model, now) if model else gone_content(nav.opened[ScreenPage.JOB])
                )
            case ScreenPage.LOG:
                return self._log_page()
            case ScreenPage.HELP:
                return help_content()

    def _log_page(self) -> ScreenContent:
        log = self._log
        if log is None:
            return log_content(self.nav.opened[ScreenPage.LOG], (), "", "")
        return log_content(log.pod.name, list(log.lines), self.nav.filter, log.note)

    def _opened(self) -> Key | None:
        """Return the Workload whose page is shown."""
        return (
            Key.parse(self.nav.opened[ScreenPage.JOB]) if self.nav.page is ScreenPage.JOB else None
        )

    def _follow_log(self) -> None:
        """Read the log that the page shows, and no other."""
        if self.nav.page is not ScreenPage.LOG:
            if self._log is not None and self.nav.page is not ScreenPage.HELP:
                self._close_log()
            return
        space = Key.parse(self.nav.opened[ScreenPage.JOB]).namespace
        wanted = Key(space, self.nav.opened[ScreenPage.LOG])
        if self._log is None or self._log.pod != wanted:
            self._close_log()
            self._log = LogReader(self._session, wanted, self._moved.set)
            self._reading = asyncio.create_task(self._log.run())

    def _close_log(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._log = self._reading = None

    def _press(self, names: list[str]) -> None:
        for name in names:
            # An earlier key may have changed the page.
            content = self._page()
            ids = [each.id for each in content.rows]
            rows = body_height(self._console.size.height, content)
            self.nav.selection.follow(ids)
            if self.nav.press(name, ids, rows):
                self._quit()
        self._moved.set()

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        """Receive keys one by one, without echo."""
        if not sys.stdin.isatty():
            yield
            return
        descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        before = termios.tcgetattr(descriptor)

        def received() -> None:
            data = os.read(descriptor, 1024)
            if not data:
                self._quit()
                return
            self._press(self._keys.feed(data))
            if self._keys.incomplete:
                loop.call_later(ESCAPE_S, lambda: self._press(self._keys.flush()))

        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, received)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
