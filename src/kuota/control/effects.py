# SPDX-License-Identifier: Apache-2.0
"""Sends effects: one write each, in order, based on the resourceVersion that it names.

Consecutive patches of one object are based on the same version; each one after the first uses the
version that the previous one produced. A Conflict is not handled here: the caller reads the newest
object and computes the effects again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, assert_never

from kuota.api.base import Json, Key
from kuota.bridge.effects import Create, Delete, Effect, Event, Patch, StatusPatch
from kuota.failures import INTERNAL_ERROR, note
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, Invalid, NotFound
from kuota.kube.events import Recorder
from kuota.kube.resources import Resource

from .keyed_locks import KeyedLocks


class WrittenObjects(Protocol):
    """Where the objects of an API server are kept, which receives the responses to writes."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The resource of each kind that effects name."""

    def wrote(self, resource: Resource, answer: Json) -> None:
        """Store the response of a write."""

    def json(self, resource: Resource, key: Key) -> Json | None:
        """Return an object; None if it does not exist."""


class EffectSender:
    """Sends effects through a client. Callers hold `locks` while they compute and send effects."""

    def __init__(self, client: Client, cache: WrittenObjects, recorder: Recorder) -> None:
        self._client = client
        self._cache = cache
        self.recorder = recorder
        self.locks = KeyedLocks()

    async def send(self, effects: Iterable[Effect]) -> None:
        """Send the effects in order. The first failure stops this and is raised.

        If an object to be changed does not exist, only its remaining changes are skipped. A
        creation that fails with NotFound is a failure: the namespace or the kind does not exist.
        If the API server rejects a patch that `may_be_rejected`, sending stops without a failure.
        """
        versions: dict[tuple[Resource, Key], tuple[str, str]] = {}
        gone: set[tuple[Resource, Key]] = set()
        for effect in effects:
            at = self._cache.resources[effect.kind], effect.key
            if isinstance(effect, Event):
                self.record(effect)
            elif at not in gone or isinstance(effect, Create):
                try:
                    await self._write(effect, at[0], versions)
                except NotFound:
                    if isinstance(effect, Create):
                        raise
                    gone.add(at)
                except Invalid:
                    if not (isinstance(effect, Patch) and effect.may_be_rejected):
                        raise
                    return

    async def _write(
        self,
        effect: StatusPatch | Patch | Create | Delete,
        resource: Resource,
        versions: dict[tuple[Resource, Key], tuple[str, str]],
    ) -> None:
        at = resource, effect.key
        match effect:
            case StatusPatch():
                base = effect.resource_version
                body: Json = {"status": effect.status}
                await self._patch(at, body, base, versions, subresource="status")
            case Patch():
                await self._patch(at, effect.body, effect.resource_version, versions)
            case Create():
                await self._create(resource, effect)
            case Delete():
                answer = await self._client.delete(
                    resource, effect.key, uid=effect.uid, propagation=effect.propagation
                )
                self._cache.wrote(resource, answer)
            case _:
                assert_never(effect)

    async def _patch(
        self,
        at: tuple[Resource, Key],
        body: Json,
        base: str,
        versions: dict[tuple[Resource, Key], tuple[str, str]],
        subresource: str = "",
    ) -> None:
        before = versions.get(at)
        version = before[1] if before is not None and before[0] == base else base
        if version:
            metadata = body.get("metadata") or {}
            body = body | {"metadata": metadata | {"resourceVersion": version}}
        stored = await self._client.patch(*at, body, subresource=subresource)
        versions[at] = base, stored["metadata"]["resourceVersion"]
        self._cache.wrote(at[0], stored)

    async def _create(self, resource: Resource, effect: Create) -> None:
        try:
            self._cache.wrote(resource, await self._client.create(resource, effect.object))
        except AlreadyExists:
            if effect.must_be_new:
                raise

    def record_internal_error(self, kind: str, key: Key, doing: str, error: Exception) -> None:
        """Record on an object that its reconciliation failed unexpectedly and will be retried."""
        text = note(doing, error)
        self.record(Event.about(key, INTERNAL_ERROR, text, warning=True, kind=kind))

    def record(self, event: Event) -> None:
        """Record an event about a watched object."""
        resource = self._cache.resources[event.kind]
        about = self._cache.json(resource, event.key) or {
            "metadata": {"namespace": event.key.namespace, "name": event.key.name}
        }
        named = {"apiVersion": resource.api_version, "kind": resource.kind} | about
        self.recorder.record(
            named, event.reason, event.note, warning=event.warning, can_wait=event.can_wait
        )
