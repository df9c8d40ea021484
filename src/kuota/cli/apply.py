# SPDX-License-Identifier: Apache-2.0
"""`kuota apply`: applies manifests to the server with server-side apply.

All manifests are validated first by the rules of `kuota check`. If any manifest has a fault,
nothing is sent to the server.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.api.gates import resolved
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.requests import PatchType, WriteOptions, patching
from kuota.kube.resources import Resource, key_of

from . import output as printed
from . import room
from .check import UNREADABLE
from .connect import (
    FAILED,
    MANAGER,
    PATH,
    Choice,
    conduct,
    filename_option,
    server_options,
)
from .findings import Severity, inspected
from .kinds import absence, resource_for
from .manifests import Manifest, load
from .output import counted, name_text, tidied
from .own_namespaces import refusal

if TYPE_CHECKING:
    from .session import Session

_FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that are applied first, because other objects depend on them."""
_NO_SUCH_KIND = "could not find the requested resource"
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation")


@click.command("apply")
@click.argument("files", nargs=-1, type=PATH)
@filename_option()
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml", "name"]), default="text")
@click.option("--dry-run", is_flag=True, help="Validate on the server without storing anything.")
@click.option(
    "--force-conflicts",
    is_flag=True,
    help="Take over fields that other managers own.",
)
@server_options
def command(
    files: tuple[str, ...],
    filenames: tuple[str, ...],
    output: str,
    dry_run: bool,
    force_conflicts: bool,
    choice: Choice,
) -> None:
    """Apply manifests to the server: create or change their objects (server-side apply).

    \b
    Examples:
      kuota apply -f examples/three-teams
      cat job.yaml | kuota apply -f -
    """
    paths = (*filenames, *files)
    if not paths:
        raise click.UsageError(
            "nothing to apply: give a file with -f FILE, or - for standard input"
        )
    manifests = _checked(paths)

    async def work(session: Session) -> int:
        applying = Applying(session, dry_run=dry_run, force=force_conflicts)
        return await applying.run(manifests, output, bool(choice.namespace))

    conduct(choice, work)


def _checked(paths: tuple[str, ...]) -> list[Manifest]:
    """Return the manifests to apply. Exits the process if any of them has a fault."""
    manifests = load(paths)
    verdict = inspected(manifests, resolved("", None))
    faults = [each for each in verdict.findings if each.severity is Severity.ERROR]
    for each in faults:
        click.echo(str(each), err=True)
    wrong = [each for each in manifests if _is_configuration(each) and not each.found]
    for manifest in wrong:
        click.echo(
            f"{manifest.source}: Configuration is what the controller is started with, and no "
            "object of a server. Fix: give it to `kuota up --config FILE`.",
            err=True,
        )
    count = len(faults) + len(wrong)
    if count:
        click.echo(f"{counted(count, 'fault')}: nothing was applied", err=True)
        sys.exit(UNREADABLE if verdict.unreadable else FAILED)
    kept = [each for each in manifests if each.object.get("kind") and not _is_configuration(each)]
    if not kept:
        raise click.UsageError("nothing to apply: the input contains no objects")
    return kept


def _is_configuration(manifest: Manifest) -> bool:
    return str(manifest.object.get("apiVersion", "")).startswith("config.kueue.x-k8s.io/")


class ManifestRejected(Exception):
    """The manifest cannot be applied; the message gives the reason."""


class Applying:
    """One run of `kuota apply`. An error in one object does not prevent the others."""

    def __init__(self, session: Session, *, dry_run: bool, force: bool) -> None:
        self._session = session
        self._options = WriteOptions(
            manager=MANAGER, force=force, dry_run=dry_run, validation="Strict"
        )

    async def run(self, manifests: Sequence[Manifest], output: str, namespace_given: bool) -> int:
        """Apply all manifests, print the outcomes, and return the exit status."""
        done: list[Json] = []
        failures = 0
        for manifest in sorted(manifests, key=lambda each: each.object["kind"] not in _FIRST):
            try:
                resource = await self._resource(manifest, namespace_given)
                obj, outcome = await self._apply(resource, manifest.object)
            except (ApiError, ManifestRejected) as error:
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

    async def _reason(self, error: ApiError | ManifestRejected, obj: Json) -> str:
        if isinstance(error, NotFound) and _NO_SUCH_KIND in error.message:
            return await absence(self._session, obj["apiVersion"], obj["kind"])
        return await refusal(self._session, error) if isinstance(error, ApiError) else str(error)

    def _tell(self, resource: Resource, obj: Json, outcome: str, output: str) -> None:
        if output == "name":
            click.echo(name_text(resource, obj))
        elif output == "text":
            note = " (dry run)" if self._options["dry_run"] else ""
            click.echo(f"{name_text(resource, obj)} {outcome}{note}")

    async def _resource(self, manifest: Manifest, namespace_given: bool) -> Resource:
        """Return the resource of the object. Raises ManifestRejected if it cannot be applied."""
        obj = manifest.object
        resource = await resource_for(self._session, obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ManifestRejected(await absence(self._session, obj["apiVersion"], obj["kind"]))
        metadata = obj.get("metadata") or {}
        if not metadata.get("name"):
            raise ManifestRejected(
                "metadata.name is missing, and apply needs one; "
                f"to use a generateName: kuota create -f {manifest.source}"
            )
        own = metadata.get("namespace") or self._session.namespace
        if resource.namespaced and namespace_given and own != self._session.namespace:
            raise ManifestRejected(f"is for namespace {own}, but -n says {self._session.namespace}")
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
        return await applied(self._session, resource, config, self._options)


async def applied(
    session: Session, resource: Resource, config: Json, options: WriteOptions
) -> tuple[Json, str]:
    """Apply one object with server-side apply, and print the server's warnings.

    Returns the object as stored, and "created", "configured" or "unchanged".
    """
    try:
        before = await session.client.get(resource, key_of(config))
    except NotFound:
        before = None
    obj, warnings = await session.answer(
        patching(resource, key_of(config), config, PatchType.APPLY, options)
    )
    for each in warnings:
        click.echo(f"Warning: {name_text(resource, obj)}: {each}", err=True)
    if before is None:
        return obj, "created"
    return obj, "unchanged" if _stated(obj) == _stated(before) else "configured"


def _stated(obj: Json) -> Json:
    """Return the object without its status and the metadata that the server maintains."""
    own = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": own}


def _where(manifest: Manifest) -> str:
    obj = manifest.object
    name = (obj.get("metadata") or {}).get("name") or "(no name)"
    return f"{manifest.source}:{manifest.line_of('')}: {obj['kind']}/{name}"


def _dump(done: list[Json], output: str) -> None:
    if output not in printed.FORMATS or not done:
        return
    whole = done[0] if len(done) == 1 else {"apiVersion": "v1", "kind": "List", "items": done}
    printed.show(whole, output)
