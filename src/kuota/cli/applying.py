# SPDX-License-Identifier: Apache-2.0
"""Sends checked manifests to the server one by one, and tells what became of each."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import click

from kuota.api.base import Json
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.requests import Patch, WriteOptions, patching
from kuota.kube.resources import Resource, key_of

from . import output as printed
from . import room
from .connect import FAILED, refusal
from .kinds import absence, resource_for
from .manifests import Manifest
from .output import name_text, tidied
from .session import MANAGER, Session

_FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that others need to be there before they can be."""


_NO_SUCH_KIND = "could not find the requested resource"
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation")


class Refused(Exception):
    """One manifest that cannot be applied, and why."""


class Applying:
    """One run of `kuota apply`. What one object is refused for does not stop the others."""

    def __init__(self, session: Session, *, dry_run: bool, force: bool) -> None:
        self._session = session
        self._options = WriteOptions(
            manager=MANAGER, force=force, dry_run=dry_run, validation="Strict"
        )

    async def run(self, manifests: Sequence[Manifest], output: str, namespace_given: bool) -> int:
        """Apply all, and print the outcomes; returns the exit status."""
        done: list[Json] = []
        failures = 0
        for manifest in sorted(manifests, key=lambda each: each.object["kind"] not in _FIRST):
            try:
                resource = await self._resource(manifest, namespace_given)
                obj, outcome = await self._apply(resource, manifest.object)
            except (ApiError, Refused) as error:
                failures += 1
                why = await self._reason(error, manifest.object)
                click.echo(f"Error: {_where(manifest)}: {why}", err=True)
                continue
            done.append(obj)
            self._tell(resource, obj, outcome, output)
        _dump([tidied(each) for each in done], output)
        if not self._options["dry_run"] and any(each["kind"] in room.KINDS for each in done):
            await room.warn(self._session)
        return FAILED if failures else 0

    async def _reason(self, error: ApiError | Refused, obj: Json) -> str:
        if isinstance(error, NotFound) and _NO_SUCH_KIND in error.message:
            return await absence(self._session, obj["apiVersion"], obj["kind"])
        return refusal(error) if isinstance(error, ApiError) else str(error)

    def _tell(self, resource: Resource, obj: Json, outcome: str, output: str) -> None:
        if output == "name":
            click.echo(name_text(resource, obj))
        elif output == "text":
            note = " (dry run)" if self._options["dry_run"] else ""
            click.echo(f"{name_text(resource, obj)} {outcome}{note}")

    async def _resource(self, manifest: Manifest, namespace_given: bool) -> Resource:
        """Where the object goes. Raises Refused if that cannot be told."""
        obj = manifest.object
        resource = await resource_for(self._session, obj["apiVersion"], obj["kind"])
        if resource is None:
            raise Refused(await absence(self._session, obj["apiVersion"], obj["kind"]))
        metadata = obj.get("metadata") or {}
        if not metadata.get("name"):
            raise Refused("metadata.name is missing; apply needs one, generateName is for create")
        own = metadata.get("namespace") or self._session.namespace
        if resource.namespaced and namespace_given and own != self._session.namespace:
            raise Refused(f"is for namespace {own}, but -n says {self._session.namespace}")
        return resource

    async def _apply(self, resource: Resource, manifest: Json) -> tuple[Json, str]:
        config = copy.deepcopy(manifest)
        metadata = config["metadata"]
        for field in ("managedFields", "resourceVersion", "uid", "creationTimestamp"):
            metadata.pop(field, None)
        if resource.namespaced:
            metadata.setdefault("namespace", self._session.namespace)
        else:
            metadata.pop("namespace", None)
        before = await self._live(resource, config)
        request = patching(resource, key_of(config), config, Patch.APPLY, self._options)
        obj, warnings = await self._session.answer(request)
        for each in warnings:
            click.echo(f"Warning: {name_text(resource, obj)}: {each}", err=True)
        if before is None:
            return obj, "created"
        return obj, "unchanged" if content(obj) == content(before) else "configured"

    async def _live(self, resource: Resource, config: Json) -> Json | None:
        try:
            return await self._session.client.get(resource, key_of(config))
        except NotFound:
            return None


def content(obj: Json) -> Json:
    """What people mean by the object: not who manages its fields, nor its revision."""
    own = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    return obj | {"metadata": own}


def _where(manifest: Manifest) -> str:
    obj = manifest.object
    name = (obj.get("metadata") or {}).get("name") or "(no name)"
    return f"{manifest.source}:{manifest.line_of('')}: {obj['kind']}/{name}"


def _dump(done: list[Json], output: str) -> None:
    if output not in printed.FORMATS or not done:
        return
    whole = done[0] if len(done) == 1 else {"apiVersion": "v1", "kind": "List", "items": done}
    printed.show(whole, output)
