# SPDX-License-Identifier: Apache-2.0
"""Tells informers when a CustomResourceDefinition of their kind is created or changed.

A job kind whose definition is installed after the controller has started works from that moment. A
definition with which jobs cannot be queued gets an event with the reason. Only the metadata of
definitions is kept, because their schemas are large.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.kueue import GROUP
from kuota.bridge.definition_faults import definition_fault
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import CRDS
from kuota.kube.workqueue import WorkQueue, serve


class Definitions:
    """Watches the definitions of the kinds of these informers."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        informers: Iterable[Informer[Any]],
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._informers: dict[str, list[Informer[Any]]] = {}
        for each in informers:
            self._informers.setdefault(each.resource.name, []).append(each)
        self._definitions = Informer[Json](
            client, CRDS, metadata_only=True, decode=_metadata, clock=clock
        )
        self._definitions.observe(self._observed)
        for informer in (each for listed in self._informers.values() for each in listed):
            # Without Kueue's own kinds nothing works, so their absence stays a warning.
            if informer.resource.group != GROUP:
                informer.announces = self._works

    def _works(self) -> bool:
        """Whether definitions can be watched."""
        return self._definitions.error is None

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._definitions.run())
                group.create_task(serve(self._queue, self._check))
        finally:
            self._queue.close()

    def _observed(self, old: Json | None, new: Json | None) -> None:
        if new is None or new.get("deletionTimestamp"):
            return
        for informer in self._informers.get(new["name"], ()):
            informer.announce()
            if informer.resource.group != GROUP:
                self._queue.add(Key("", new["name"]))

    async def _check(self, key: Key) -> None:
        """Record why jobs of this definition cannot be queued, if they cannot."""
        version = self._informers[key.name][0].resource.version
        found = await self._client.list(CRDS, field_selector=f"metadata.name={key.name}")
        for definition in found.items:
            fault = definition_fault(definition, version)
            if fault is not None:
                named = {"apiVersion": CRDS.api_version, "kind": CRDS.kind}
                regarding = named | {"metadata": definition["metadata"]}
                self._recorder.record(regarding, fault.reason, fault.message, warning=True)


def _metadata(definition: Json) -> Json:
    kept = ("name", "deletionTimestamp")
    return {name: definition["metadata"].get(name) for name in kept}
