# SPDX-License-Identifier: Apache-2.0
"""Tells informers when a CustomResourceDefinition of their kind is created or changed.

A job kind whose definition is installed after the controller has started works from that moment.
Only the metadata of definitions is read, because their schemas are large.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import CRDS


class Definitions:
    """Watches the definitions of the kinds of these informers."""

    def __init__(self, client: Client, clock: Clock, informers: Iterable[Informer[Any]]) -> None:
        self._informers: dict[str, list[Informer[Any]]] = {}
        for each in informers:
            self._informers.setdefault(each.resource.name, []).append(each)
        self._definitions = Informer[Json](
            client, CRDS, metadata_only=True, decode=_metadata, clock=clock
        )
        self._definitions.observe(self._observed)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._definitions.run()

    def _observed(self, old: Json | None, new: Json | None) -> None:
        if new is None or new.get("deletionTimestamp"):
            return
        for informer in self._informers.get(new["name"], ()):
            informer.announce()


def _metadata(definition: Json) -> Json:
    kept = ("name", "deletionTimestamp")
    return {name: definition["metadata"].get(name) for name in kept}
