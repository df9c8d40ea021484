# SPDX-License-Identifier: Apache-2.0
"""Tells a story live: applies its manifests act by act, and prints what happens meanwhile."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing, suppress
from pathlib import Path

import click

from kuota.kube.errors import NotFound
from kuota.kube.requests import Patch
from kuota.kube.resources import JOBS, PODS, key_of
from kuota.up.demo import QUEUES, STORY, TRAIN, Act, Awaited, Seen, What, placed
from kuota.up.stage import Stage

from .kinds import resource_for
from .manifests import load
from .session import Session

LIMIT_S = 60.0
"""How long the story may take, its start not counted."""
_COLOURS = {
    What.BORROWS: "cyan",
    What.WAITS: "yellow",
    What.ADMITTED: "green",
    What.PREEMPTED: "magenta",
    What.FINISHED: "green",
    What.SAYS: "bright_black",
}


class Stuck(Exception):
    """What the story was waiting for in vain."""


class Telling:
    """One performance, with manifests from `folder`, and work saved in `saves`."""

    def __init__(self, session: Session, folder: Path, saves: Path, start: float) -> None:
        self._session = session
        self._folder = folder
        self._saves = saves
        self._stage = Stage(session.client, _tell, (TRAIN,), start)
        self._awaited: Awaited | None = None

    async def run(self) -> list[Seen]:
        """Tell it all; returns what was seen, or raises Stuck."""
        watching = asyncio.create_task(self._stage.run())
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._apply(QUEUES)
                for act in STORY:
                    await self._play(act)
        except TimeoutError:
            raise Stuck(str(self._awaited or "the server to take the manifests")) from None
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        return self._stage.seen

    async def _play(self, act: Act) -> None:
        click.echo("\n" + _styled(act.title, bold=True))
        if act.manifest:
            click.echo(f"         $ kubectl apply -f {self._folder / act.manifest}")
            await self._apply(act.manifest)
        for self._awaited in act.awaits:
            await self._stage.until(self._awaited)

    async def _apply(self, name: str) -> None:
        for each in load([str(self._folder / name)]):
            if not each.object or each.faults:
                raise Stuck(f"{each.source} to be a readable manifest")
            obj = placed(each.object, str(self._saves))
            resource = await resource_for(self._session, obj["apiVersion"], obj["kind"])
            assert resource is not None
            await self._session.client.patch(
                resource, key_of(obj), obj, kind=Patch.APPLY, validation="Strict"
            )


async def clear(session: Session) -> None:
    """Delete all Jobs, and wait until none of their processes is left."""
    client = session.client
    for job in (await client.list(JOBS)).items:
        with suppress(NotFound):
            await client.delete(JOBS, key_of(job), propagation="Background")
    pods = await client.list(PODS)
    left = {key_of(each) for each in pods.items}
    async with aclosing(client.watch(PODS, since=pods.revision)) as events:
        while left:
            event = await anext(events)
            if event.type == "DELETED":
                left.discard(key_of(event.object))


def _tell(seen: Seen) -> None:
    sight = seen.sight
    text = f"│ {sight.text}" if sight.what is What.SAYS else sight.text
    words = _styled(text, fg=_COLOURS.get(sight.what))
    click.echo(f"{seen.at_s:6.1f}s  {sight.who:18} {words}")


def _styled(text: str, *, fg: str | None = None, bold: bool = False) -> str:
    return click.style(text, fg=fg, bold=bold or None) if sys.stdout.isatty() else text
