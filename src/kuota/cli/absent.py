# SPDX-License-Identifier: Apache-2.0
"""What to say of an object that is not there: where it was looked for, and what may be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.resources import WORKLOADS, Resource, key_of
from kuota.view.live import owner

if TYPE_CHECKING:
    from .session import Session


async def absent(session: Session, resource: Resource, name: str, error: NotFound) -> str:
    """The server's words, and a way out where the name is known elsewhere."""
    if not resource.namespaced:
        return error.message
    hint = await elsewhere(session, resource, name)
    if resource == WORKLOADS:
        hint = await _of_job(session, name) or hint
    return f"{error.message} in namespace {session.namespace}{hint}"


async def elsewhere(session: Session, resource: Resource, name: str) -> str:
    """In which other namespaces there is one of that name; "" if in none that can be seen."""
    found = await _seen(session, resource, None, f"metadata.name={name}")
    places = sorted({key_of(each).namespace for each in found} - {session.namespace})
    if not places:
        return ""
    if len(places) == 1:
        return f"; there is one in namespace {places[0]}: say -n {places[0]}"
    return f"; there are some in namespaces {', '.join(places)}: name one with -n"


async def _of_job(session: Session, name: str) -> str:
    """A hint where the name is that of a job which has a Workload."""
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
