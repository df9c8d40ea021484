# SPDX-License-Identifier: Apache-2.0
"""Deletes objects, and waits until they are gone: finalizers and processes may take a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import click
import msgspec

from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError, Gone, NotFound
from kuota.kube.resources import WORKLOADS, Resource, key_of

from .absent import absent
from .connect import FAILED, Failed, refusal
from .kinds import named, resource_for
from .manifests import load
from .session import Session
from .shown import name_text

_PATIENCE_S = 1.0


class Doomed(msgspec.Struct, frozen=True):
    """One object to delete."""

    resource: Resource
    key: Key

    def __str__(self) -> str:
        return name_text(self.resource, {"metadata": {"name": self.key.name}})


async def selected(
    session: Session, what: Sequence[str], labels: str, everything: bool
) -> list[Doomed]:
    """The objects that the words of the command mean."""
    doomed: list[Doomed] = []
    for resource, names in await named(session, what):
        if labels or everything:
            inside = session.namespace if resource.namespaced else None
            listed = await session.client.list(resource, inside, label_selector=labels)
            doomed += [Doomed(resource, key_of(each)) for each in listed.items]
        else:
            doomed += [Doomed(resource, session.key(resource, name)) for name in names]
    return doomed


async def described(session: Session, paths: Sequence[str]) -> list[Doomed]:
    """The objects of manifests, the last one first: what came later may need what came before."""
    doomed: list[Doomed] = []
    for manifest in load(paths):
        for fault in manifest.faults:
            raise Failed(f"{manifest.source}:{manifest.line_of('')}: {fault}")
        obj = manifest.object
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        name = str((obj.get("metadata") or {}).get("name") or "")
        resource = await resource_for(session, api_version, kind) if kind and name else None
        if resource is not None:
            own = obj["metadata"].get("namespace") or session.namespace
            doomed.append(Doomed(resource, Key(own if resource.namespaced else "", name)))
    return doomed[::-1]


class Deleting:
    """One run of `kuota delete`."""

    def __init__(
        self,
        session: Session,
        *,
        lenient: bool,
        propagation: str,
        grace_s: int | None,
        wait: bool,
        timeout_s: float | None,
        dry_run: bool,
    ) -> None:
        self._session = session
        self._lenient = lenient
        self._propagation = propagation
        self._grace_s = grace_s
        self._wait = wait
        self._timeout_s = timeout_s
        self._dry_run = dry_run

    async def run(self, doomed: Sequence[Doomed]) -> int:
        """Delete all; returns the exit status."""
        if not doomed:
            click.echo("Nothing to delete.", err=True)
        failures = 0
        dying: list[tuple[Doomed, str]] = []
        for each in doomed:
            try:
                uid = await self._delete(each)
            except NotFound as error:
                failures += not self._lenient
                if not self._lenient:
                    name = each.key.name
                    words = await absent(self._session, each.resource, name, error)
                    click.echo(f"Error: {words}", err=True)
            except ApiError as error:
                failures += 1
                click.echo(f"Error: {each}: {refusal(error)}", err=True)
            else:
                dying.append((each, uid))
        if self._wait:
            failures += not await self._waited(dying)
        return FAILED if failures else 0

    async def _delete(self, doomed: Doomed) -> str:
        """Ask for the deletion; returns the uid of what was there."""
        live = await self._session.client.get(doomed.resource, doomed.key)
        uid = str(live["metadata"].get("uid") or "")
        await self._session.client.delete(
            doomed.resource,
            doomed.key,
            propagation=self._propagation,
            grace_s=self._grace_s,
            dry_run=self._dry_run,
        )
        click.echo(f"{doomed} deleted{' (dry run)' if self._dry_run else ''}")
        owner = _owner(live) if doomed.resource == WORKLOADS else ""
        if owner:
            click.echo(
                f"Note: {owner} is still there, and gets a new Workload. "
                f"Delete that to be rid of both, or stop it: kuota stop workload {doomed.key.name}",
                err=True,
            )
        return uid

    async def _waited(self, dying: Sequence[tuple[Doomed, str]]) -> bool:
        """Wait until all are gone; False when that took too long."""
        names = ", ".join(str(doomed) for doomed, _ in dying)
        notice = asyncio.get_running_loop().call_later(
            _PATIENCE_S, lambda: click.echo(f"waiting for the end of {names} ...", err=True)
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                for doomed, uid in dying:
                    await gone(self._session, doomed, uid)
        except TimeoutError:
            click.echo(f"Error: not all were gone after {self._timeout_s:g} s", err=True)
            return False
        finally:
            notice.cancel()
        return True


async def gone(session: Session, doomed: Doomed, uid: str) -> None:
    """Return when the object with that uid is not there any more."""
    only = f"metadata.name={doomed.key.name}"
    where = doomed.key.namespace or None
    while True:
        listed = await session.client.list(doomed.resource, where, field_selector=only)
        if not any(each["metadata"].get("uid") == uid for each in listed.items):
            return
        changes = session.client.watch(
            doomed.resource, where, since=listed.revision, field_selector=only
        )
        try:
            async with aclosing(changes) as events:
                async for event in events:
                    if event.type == "DELETED":
                        break
        except Gone:
            continue


def _owner(obj: Json) -> str:
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return f"{each['kind']} {each['name']}"
    return ""
