# SPDX-License-Identifier: Apache-2.0
"""Objects as `kuota get` prints them: the server's tables, whole objects, or names."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from kuota.api.base import Json
from kuota.kube.errors import Gone, NotFound
from kuota.kube.requests import PAGE, HttpRequest, Selection, item_path, listing
from kuota.kube.resources import Resource

from . import columns, output
from .absent import absent
from .session import Session

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
Chosen = Sequence[tuple[Resource, list[str]]]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How to show, and which of all objects."""

    output: str
    everywhere: bool = False
    labels: str = ""
    fields: str = ""
    headers: bool = True
    lenient: bool = False

    def selection(self, session: Session, resource: Resource) -> Selection:
        inside = resource.namespaced and not self.everywhere
        return Selection(session.namespace if inside else None, self.labels, self.fields)


class Grid(msgspec.Struct):
    """Tables of one kind put together. Rows go with the metadata of their objects."""

    header: list[str] = []
    rows: list[list[str]] = []
    metadata: list[Json] = []
    revision: str = ""
    priorities: list[int] = []

    def take(self, table: Json) -> None:
        """Add the rows of a Table. The definitions of columns come with the first one only."""
        definitions = table.get("columnDefinitions")
        if definitions and not self.header:
            self.header = [str(each["name"]) for each in definitions]
            self.priorities = [int(each.get("priority") or 0) for each in definitions]
        metadata = table.get("metadata") or {}
        self.revision = self.revision or str(metadata.get("resourceVersion") or "")
        for row in table.get("rows") or ():
            self.rows.append([columns.cell(each) for each in row["cells"]])
            self.metadata.append((row.get("object") or {}).get("metadata") or {})

    def visible(
        self, *, wide: bool, everywhere: bool, prefix: str
    ) -> tuple[list[str], list[list[str]]]:
        """Header and rows to print, with the namespace first where it tells something."""
        kept = [at for at, rank in enumerate(self.priorities) if wide or not rank]
        header = [self.header[at] for at in kept]
        rows = [[f"{prefix}{row[at]}" if not at else row[at] for at in kept] for row in self.rows]
        if everywhere:
            header = ["Namespace", *header]
            places = [str(each.get("namespace") or "") for each in self.metadata]
            rows = [[place, *row] for place, row in zip(places, rows, strict=True)]
        return header, rows


async def tables(session: Session, chosen: Chosen, wanted: Wanted) -> int:
    """Print a table for each kind; returns the exit status."""
    missing: list[str] = []
    empty = True
    for resource, names in chosen:
        grid = await grid_of(session, resource, names, wanted, missing)
        if not grid.rows:
            continue
        if not empty:
            click.echo()
        empty = False
        _print(grid, resource, wanted, f"{resource.name}/" if len(chosen) > 1 else "")
    _report(missing, wanted)
    if empty and not missing and not wanted.lenient:
        click.echo(_nothing(session, chosen, wanted), err=True)
    return 1 if missing and not wanted.lenient else 0


def _print(grid: Grid, resource: Resource, wanted: Wanted, prefix: str) -> None:
    everywhere = wanted.everywhere and resource.namespaced
    header, rows = grid.visible(wide=wanted.output == "wide", everywhere=everywhere, prefix=prefix)
    if wanted.headers:
        columns.show(header, rows)
        return
    across = columns.widths(rows)
    for row in rows:
        click.echo(columns.line(row, across))


def _nothing(session: Session, chosen: Chosen, wanted: Wanted) -> str:
    inside = any(resource.namespaced for resource, _ in chosen) and not wanted.everywhere
    where = f" in namespace {session.namespace}" if inside else ""
    what = ", ".join(resource.plural for resource, _ in chosen)
    return f"No {what} found{where}."


def _report(missing: list[str], wanted: Wanted) -> None:
    for each in () if wanted.lenient else missing:
        click.echo(f"Error: {each}", err=True)


async def grid_of(
    session: Session, resource: Resource, names: list[str], wanted: Wanted, missing: list[str]
) -> Grid:
    """The rows of the objects named, or of all; what is not there is added to `missing`."""
    grid = Grid()
    if not names:
        which = wanted.selection(session, resource)
        try:
            await _pages(session, resource, which, grid, PAGE)
        except Gone:
            grid = Grid()
            await _pages(session, resource, which, grid, None)
        return grid
    for name in names:
        path = item_path(resource, session.key(resource, name))
        try:
            grid.take((await session.answer(_as_table(HttpRequest(method="GET", path=path))))[0])
        except NotFound as error:
            missing.append(await absent(session, resource, name, error))
    return grid


async def _pages(
    session: Session, resource: Resource, which: Selection, grid: Grid, limit: int | None
) -> None:
    resume = ""
    while True:
        request = _as_table(listing(resource, which, limit=limit, resume=resume))
        table, _ = await session.answer(request)
        grid.take(table)
        resume = (table.get("metadata") or {}).get("continue") or ""
        if not resume:
            return


def _as_table(request: HttpRequest) -> HttpRequest:
    return msgspec.structs.replace(request, headers={"accept": TABLE}, idempotent=True)


async def objects(session: Session, chosen: Chosen, wanted: Wanted) -> int:
    """Print whole objects, or their names; returns the exit status."""
    missing: list[str] = []
    found: list[tuple[Resource, Json]] = []
    for resource, names in chosen:
        found += [
            (resource, obj) for obj in await _whole(session, resource, names, wanted, missing)
        ]
    if wanted.output == "name":
        for resource, obj in found:
            click.echo(name_text(resource, obj))
    else:
        single = len(chosen) == 1 and len(chosen[0][1]) == 1
        _dump([tidied(obj) for _, obj in found], single, wanted)
    _report(missing, wanted)
    return 1 if missing and not wanted.lenient else 0


def _dump(found: list[Json], single: bool, wanted: Wanted) -> None:
    if not single:
        output.show({"apiVersion": "v1", "kind": "List", "items": found}, wanted.output)
    elif found:
        output.show(found[0], wanted.output)


async def _whole(
    session: Session, resource: Resource, names: list[str], wanted: Wanted, missing: list[str]
) -> list[Json]:
    if not names:
        which = wanted.selection(session, resource)
        listed = await session.client.list(
            resource, which.namespace, label_selector=which.labels, field_selector=which.fields
        )
        return listed.items
    found: list[Json] = []
    for name in names:
        try:
            found.append(await session.client.get(resource, session.key(resource, name)))
        except NotFound as error:
            missing.append(await absent(session, resource, name, error))
    return found


def name_text(resource: Resource, obj: Json) -> str:
    """`job.batch/train`: what other commands take back."""
    kind = resource.kind.lower()
    return f"{f'{kind}.{resource.group}' if resource.group else kind}/{obj['metadata']['name']}"


def tidied(obj: Json) -> Json:
    """The object without its managedFields, which are for programs; apiVersion and kind first."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    head = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    return head | {key: value for key, value in obj.items() if key not in head}
