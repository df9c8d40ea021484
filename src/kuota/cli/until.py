# SPDX-License-Identifier: Apache-2.0
"""Waits for what becomes of one object."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import Gone
from kuota.kube.resources import Resource


async def until(
    client: Client, resource: Resource, key: Key, done: Callable[[Json | None], bool]
) -> Json | None:
    """Return the object as soon as it satisfies `done`; None stands for no such object."""
    where, only = key.namespace or None, f"metadata.name={key.name}"
    while True:
        listed = await client.list(resource, where, field_selector=only)
        obj = listed.items[0] if listed.items else None
        if done(obj):
            return obj
        changes = client.watch(resource, where, since=listed.revision, field_selector=only)
        try:
            async with aclosing(changes) as events:
                async for event in events:
                    obj = None if event.type == "DELETED" else event.object
                    if done(obj):
                        return obj
        except Gone:
            continue
