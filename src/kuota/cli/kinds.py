# SPDX-License-Identifier: Apache-2.0
"""Resolves the kinds and objects that users name, and suggests fixes for unknown names.

Known kinds need no request. Other kinds are found with the server's discovery API.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.base import Json, Key, group_of
from kuota.kube import resources
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import EVENTS, JOBS, NAMESPACES, WORKLOADS, Resource, key_of
from kuota.view.conditions import holds
from kuota.view.workload_state import owner

from .groups import ALIASES

if TYPE_CHECKING:
    from .session import Session


_SHORT = {
    "cm": resources.CONFIG_MAPS,
    "ev": resources.CORE_EVENTS,
    "limits": resources.LIMIT_RANGES,
    "ns": resources.NAMESPACES,
    "no": resources.NODES,
    "quota": resources.RESOURCE_QUOTAS,
    "sa": resources.SERVICE_ACCOUNTS,
    "svc": resources.SERVICES,
    "cj": resources.CRON_JOBS,
    "pc": resources.PRIORITY_CLASSES,
    "crd": resources.CRDS,
    "crds": resources.CRDS,
    "wpc": resources.WORKLOAD_PRIORITY_CLASSES,
    "podgroup": WORKLOADS,
    "podgroups": WORKLOADS,
}
"""Other names of kinds. A group of Pods is no object; its Workload has its name."""


def _known() -> dict[str, Resource]:
    named: dict[str, Resource] = {}
    for each in resources.ALL:
        if each is not EVENTS:
            named |= {each.plural: each, each.kind.lower(): each}
        named[each.name] = each
    return named | _SHORT | {word: named[kind] for word, kind in ALIASES.items()}


NAMES = _known()
"""Known kinds by name, including short names."""


class UnknownKind(click.UsageError):
    """The server has no kind of this name."""


async def resource_of(session: Session, word: str) -> Resource:
    """Return the resource with this name or short name. Raises UnknownKind if there is none."""
    wanted = word.lower()
    if wanted in NAMES:
        return NAMES[wanted]
    found: dict[str, Resource] = {}
    for words, resource in await _discovered(session):
        for each in words:
            found.setdefault(each, resource)
    if wanted in found:
        return found[wanted]
    close = difflib.get_close_matches(wanted, [*NAMES, *found], n=1)
    hint = f"did you mean {close[0]}?" if close else "see what there is: kubectl api-resources"
    raise UnknownKind(f"the server has no kind '{word}'; {hint}")


async def resource_for(session: Session, api_version: str, kind: str) -> Resource | None:
    """Return the resource of this apiVersion and kind; None if the server does not have it."""
    group, _, version = api_version.rpartition("/")
    for each in resources.ALL:
        if each.group == group and each.kind == kind:
            return msgspec.structs.replace(each, version=version)
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        listed = await session.client.fetch(root)
    except NotFound:
        return None
    for _, resource in _entries(listed, group, version):
        if resource.kind == kind:
            return resource
    return None


async def absence(session: Session, api_version: str, kind: str) -> str:
    """Return the message for an unknown apiVersion or kind, with a suggestion."""
    said = f"the server has no {kind} in {api_version}"
    group = group_of(api_version)
    known = [resource for _, resource in await _discovered(session)]
    elsewhere = [each for each in known if each.kind == kind]
    if elsewhere:
        versions = " or ".join(sorted({each.api_version for each in elsewhere}))
        return f"{said}; {kind} is in {versions}"
    near = [each.kind for each in known if each.group == group]
    close = difflib.get_close_matches(kind, near, n=1)
    if close:
        return f"{said}; did you mean {close[0]}?"
    return f"{said}; install its CustomResourceDefinition first"


async def named(session: Session, words: Sequence[str]) -> list[tuple[Resource, list[str]]]:
    """Parse `KIND[,KIND] [NAME...]` or `KIND/NAME ...` into resources, each with its names.

    A single word that is no kind may be the name of a job.
    """
    if any("/" in word for word in words):
        pairs: dict[Resource, list[str]] = {}
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not name or not kind:
                raise click.UsageError(f"'{word}' is not KIND/NAME, as the others are")
            pairs.setdefault(await resource_of(session, kind), []).append(name)
        return list(pairs.items())
    try:
        kinds = [await resource_of(session, each) for each in words[0].split(",") if each]
    except UnknownKind as error:
        if len(words) > 1:
            raise
        job = await kind_of_job(session, words[0])
        if job is None:
            raise UnknownKind(await _neither(session, words[0], error)) from None
        return [(job, [words[0]])]
    return [(kind, list(words[1:])) for kind in kinds]


async def kind_of_job(session: Session, name: str) -> Resource | None:
    """Return the kind of the job of this name in the selected namespace; None if there is none.

    A Job is found by its name, and a job of another kind if it has a Workload.
    """
    if await exists(session, JOBS, name):
        return JOBS
    for each in await _seen(session, WORKLOADS, session.namespace):
        kind, of = owner(each)
        if of == name and kind:
            with suppress(UnknownKind):
                return await resource_of(session, kind)
    return None


async def _neither(session: Session, word: str, error: UnknownKind) -> str:
    """Return the message for a word that is neither a kind nor the name of a job."""
    said = f"there is no job {word} in namespace {session.namespace}"
    hint = await elsewhere(session, JOBS, word) or await _similar(session, word, JOBS)
    return f"{said}{hint}" if hint else f"{said}, and {error.message}"


async def exists(session: Session, resource: Resource, name: str) -> bool:
    """Whether the object exists in the selected namespace, and may be read."""
    try:
        await session.client.get(resource, session.key(resource, name))
    except ApiError:
        return False
    return True


async def _discovered(session: Session) -> list[tuple[list[str], Resource]]:
    groups = (await session.client.fetch("/apis")).get("groups") or ()
    preferred = [each["preferredVersion"]["groupVersion"] for each in groups]
    listings = await asyncio.gather(
        session.client.fetch("/api/v1"),
        *(session.client.fetch(f"/apis/{each}") for each in preferred),
        return_exceptions=True,
    )
    found: list[tuple[list[str], Resource]] = []
    for where, listed in zip(["v1", *preferred], listings, strict=True):
        # An aggregated API whose server is down must not hide the others.
        if isinstance(listed, dict):
            group, _, version = where.rpartition("/")
            found += _entries(listed, group, version)
    return found


def _entries(listed: Json, group: str, version: str) -> Iterator[tuple[list[str], Resource]]:
    for each in listed.get("resources") or ():
        if "/" in each["name"]:
            continue
        resource = Resource(group, version, each["name"], each["kind"], bool(each["namespaced"]))
        singular = each.get("singularName") or each["kind"].lower()
        words = [resource.plural, singular, resource.name, f"{singular}.{group}"]
        yield [*words, *(each.get("shortNames") or ())], resource


async def absent(
    session: Session, resource: Resource, name: str, error: NotFound, *others: Resource
) -> str:
    """Return the server's message, and a hint if the name exists elsewhere or is misspelt.

    The name may also have been meant for one of the `others`.
    """
    if not resource.namespaced:
        return f"{error.message}{await _similar(session, name, resource)}"
    missing = await missing_namespace(session)
    if missing:
        return f"{error.message}: {missing}"
    hint = await elsewhere(session, resource, name)
    if resource == WORKLOADS:
        hint = await _of_job(session, name) or hint
    hint = hint or await _similar(session, name, resource, *others)
    nor = "".join(f", and no {each.kind} has this name" for each in others)
    return f"{error.message} in namespace {session.namespace}{nor}{hint}"


async def missing_namespace(session: Session) -> str:
    """Say that the selected namespace does not exist; "" if it does or cannot be read."""
    try:
        await session.client.get(NAMESPACES, Key("", session.namespace))
    except NotFound:
        similar = await _similar(session, session.namespace, NAMESPACES)
        return f"there is no namespace {session.namespace}{similar}"
    except ApiError:
        pass
    return ""


async def _similar(session: Session, name: str, *kinds: Resource) -> str:
    """Return a hint with the most similar name in the selected namespace; "" if there is none."""
    names: list[str] = []
    for resource in kinds:
        inside = session.namespace if resource.namespaced else None
        names += [str(each["metadata"]["name"]) for each in await _seen(session, resource, inside)]
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


async def elsewhere(session: Session, resource: Resource, name: str) -> str:
    """Return a hint with the other namespaces that have this name; "" if none is visible."""
    found = await _seen(session, resource, None, f"metadata.name={name}")
    places = sorted({key_of(each).namespace for each in found} - {session.namespace})
    if not places:
        return ""
    if len(places) == 1:
        return f"; there is one in namespace {places[0]}: say -n {places[0]}"
    return f"; there are some in namespaces {', '.join(places)}: name one with -n"


async def workloads_of(session: Session, job: str) -> list[str]:
    """Return the unfinished Workloads of the jobs of this name in the selected namespace."""
    listed = await session.client.list(WORKLOADS, session.namespace)
    mine = [each for each in listed.items if owner(each)[1] == job and not holds(each, "Finished")]
    return [str(each["metadata"]["name"]) for each in mine]


async def _of_job(session: Session, name: str) -> str:
    """Return a hint if the name is that of a job with a Workload; otherwise ""."""
    for each in await _seen(session, WORKLOADS, session.namespace):
        kind, of = owner(each)
        if of == name:
            return f"; it is a {kind}, and its Workload is {each['metadata']['name']}"
    return ""


async def _seen(
    session: Session, resource: Resource, namespace: str | None, fields: str = ""
) -> list[Json]:
    try:
        return (await session.client.list(resource, namespace, field_selector=fields)).items
    except ApiError:
        return []
