# SPDX-License-Identifier: Apache-2.0
"""`kuota get -w`: what there is, then every change as it comes."""

from __future__ import annotations

from contextlib import aclosing

import click
import msgspec

from kuota.api.base import Json
from kuota.kube.errors import Gone
from kuota.kube.requests import HttpRequest, Selection, watching
from kuota.kube.resources import Resource
from kuota.kube.watch_lines import BOOKMARK, event_of, lines

from . import columns, output
from .session import Session
from .shown import TABLE, Grid, Wanted, grid_of, name_text, tidied


async def followed(session: Session, resource: Resource, names: list[str], wanted: Wanted) -> None:
    """Print until interrupted. What a server forgot meanwhile is listed again."""
    if names:
        only = f"metadata.name={names[0]}"
        wanted = msgspec.structs.replace(
            wanted, fields=f"{wanted.fields},{only}" if wanted.fields else only
        )
    while True:
        try:
            await _Following(session, resource, wanted).run()
        except Gone:
            continue


class _Following:
    """One list and the watches that continue it."""

    def __init__(self, session: Session, resource: Resource, wanted: Wanted) -> None:
        self._session = session
        self._resource = resource
        self._wanted = wanted
        self._grid = Grid()
        self._widths: list[int] = []
        self._revision = ""

    async def run(self) -> None:
        which = self._wanted.selection(self._session, self._resource)
        if self._wanted.output in ("table", "wide"):
            await self._begin_table()
            while True:
                await self._more_rows(which)
        else:
            await self._begin_objects(which)
            while True:
                await self._more_objects(which)

    async def _begin_table(self) -> None:
        self._grid = await grid_of(self._session, self._resource, [], self._wanted, [])
        self._revision = self._grid.revision
        header, rows = self._visible()
        if not self._wanted.headers:
            self._widths = columns.widths(rows)
            self._print(rows)
        elif rows:
            self._widths = columns.show(header, rows)

    def _visible(self) -> tuple[list[str], list[list[str]]]:
        return self._grid.visible(
            wide=self._wanted.output == "wide",
            everywhere=self._wanted.everywhere and self._resource.namespaced,
            prefix="",
        )

    async def _more_rows(self, which: Selection) -> None:
        request = _as_table(watching(self._resource, which, since=self._revision))
        async with aclosing(self._session.stream(request)) as chunks:
            async for each in lines(chunks):
                event = event_of(each)
                if event.type != BOOKMARK:
                    self._take(event.object)

    def _take(self, table: Json) -> None:
        self._grid.rows, self._grid.metadata = [], []
        self._grid.take(table)
        for each in self._grid.metadata:
            self._revision = str(each.get("resourceVersion") or self._revision)
        header, rows = self._visible()
        if not self._widths and self._wanted.headers:
            self._widths = columns.show(header, rows)
        else:
            self._print(rows)

    def _print(self, rows: list[list[str]]) -> None:
        self._widths = self._widths or columns.widths(rows)
        for row in rows:
            click.echo(columns.line(row, self._widths))

    async def _begin_objects(self, which: Selection) -> None:
        listed = await self._session.client.list(
            self._resource,
            which.namespace,
            label_selector=which.labels,
            field_selector=which.fields,
        )
        self._revision = listed.revision
        for obj in listed.items:
            self._dump(obj)

    async def _more_objects(self, which: Selection) -> None:
        changes = self._session.client.watch(
            self._resource,
            which.namespace,
            since=self._revision,
            label_selector=which.labels,
            field_selector=which.fields,
        )
        async with aclosing(changes) as events:
            async for event in events:
                self._revision = event.revision or self._revision
                self._dump(event.object)

    def _dump(self, obj: Json) -> None:
        if self._wanted.output == "name":
            click.echo(name_text(self._resource, obj))
            return
        if self._wanted.output == "yaml":
            click.echo("---")
        output.show(tidied(obj), self._wanted.output)


def _as_table(request: HttpRequest) -> HttpRequest:
    return msgspec.structs.replace(request, headers={"accept": TABLE})
