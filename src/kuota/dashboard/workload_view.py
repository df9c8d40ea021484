# SPDX-License-Identifier: Apache-2.0
"""The view of one workload.

The explanation, Events and the history are read as the viewer. For a viewer whom a proxy named,
they are read by the dashboard itself, after a review for this viewer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from kuota.api.base import Json, Key
from kuota.history.job_rows import JobRow
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, Forbidden
from kuota.kube.resources import CORE_EVENTS
from kuota.view.conditions import holds
from kuota.view.devices import DeviceRow
from kuota.view.plan import WhyRow
from kuota.view.workload_state import owner
from kuota.visibility.reading import explanation_access, forbidden_note, read_explanation

from .access import Credential, ProxiedUser, ViewerAccess
from .feed import Feed
from .models.visible import visible as shown_to
from .models.workload import workload_model
from .responses import not_found
from .scopes import Scope, visible
from .viewer_history import ViewerHistory
from .views import TIME, Changes, Load, Sent

_PACE_S = 0.5
REFRESH_S = 3.0
"""How often Events, devices and the explanation are read again."""
MOST_PODS = 5
"""The Events of at most this many pods are shown."""


class WorkloadView:
    """One workload, for one viewer. It may not exist any more, or not yet."""

    name = "workload"
    refresh_s: float | None = REFRESH_S

    def __init__(
        self,
        key: Key,
        feed: Feed,
        load: Load,
        client: Client,
        access: ViewerAccess,
        credential: Credential,
        devices: Callable[[], Awaitable[list[DeviceRow]]],
        history: ViewerHistory,
    ) -> None:
        self._key = key
        self._feed = feed
        self._load = load
        self._client = client
        self._access = access
        self._credential = credential
        self._devices = devices
        self._history = history

    @property
    def pace_s(self) -> float:
        return max(_PACE_S, self._load.pace_s)

    async def snapshot(self, scope: Scope, sent: Sent) -> Iterable[bytes]:
        sent.part = await self._encoded(scope)
        return [b'{"view":"workload","model":', sent.part, b"}"]

    async def change(self, scope: Scope, changes: Changes, sent: Sent) -> bytes | None:
        if self._key not in changes[0] and not changes[1] & {TIME, "Pod"}:
            return None
        body = sent.news(await self._encoded(scope))
        return b'{"model":' + body + b"}" if body is not None else None

    async def _encoded(self, scope: Scope) -> bytes:
        """Return the model. Raises StatusError if it does not exist or may not be read."""
        namespace = self._key.namespace
        missing = not_found(f'Workload "{self._key.name}" not found in namespace "{namespace}"')
        if not visible(scope.workloads, namespace) or self._workload() is None:
            raise missing
        began = time.perf_counter()
        why, note = await self._explanation()
        events = await self._events() if visible(scope.events, namespace) else []
        past, devices = await self._past(), await self._devices()
        workload = self._workload()
        if workload is None:
            raise missing
        model = shown_to(
            workload_model(
                workload,
                self._feed.state,
                events=events,
                past=past,
                why=why,
                note=note,
                devices=devices,
                may_read_pods=visible(scope.pods, namespace),
            ),
            lambda each: visible(scope.workloads, each),
        )
        if model is None:
            raise missing
        body = msgspec.json.encode(model)
        self._load.record(id(self), time.perf_counter() - began)
        return body

    def _workload(self) -> Json | None:
        return self._feed.state.workloads.get(self._key)

    async def _explanation(self) -> tuple[WhyRow | None, str]:
        """Return why the workload waits, as far as the API server tells this viewer."""
        workload = self._workload()
        if workload is None or any(holds(workload, each) for each in ("Admitted", "Finished")):
            return None, ""
        credential = self._credential
        if isinstance(credential, ProxiedUser):
            # The dashboard may read more than this viewer. What it read is filtered like the rest.
            wanted = explanation_access(self._key)
            if not await self._access.allows(credential.user, wanted):
                return None, forbidden_note()
            return await read_explanation(self._client, self._key)
        try:
            async with self._access.client(credential) as client:
                return await read_explanation(client, self._key)
        except Forbidden as error:
            return None, error.message

    async def _events(self) -> list[Json]:
        """Return Events, which the viewer may list.

        They are read as the viewer, so that the viewer's share of the API server pays for it,
        unless the viewer is known only by name.
        """
        if isinstance(self._credential, ProxiedUser):
            return await self._listed_events(self._client)
        try:
            async with self._access.client(self._credential) as client:
                return await self._listed_events(client)
        except Forbidden:
            return []  # The credential has just been revoked; the stream ends soon.

    async def _listed_events(self, client: Client) -> list[Json]:
        """Return the Events of the workload, its job and its first pods."""
        workload = self._workload()
        if workload is None:
            return []
        pods = self._feed.state.pods_of(workload)[:MOST_PODS]
        names = [self._key.name, owner(workload)[1], *(each["metadata"]["name"] for each in pods)]
        found: list[Json] = []
        for name in dict.fromkeys(filter(None, names)):
            try:
                selector = f"involvedObject.name={name}"
                listed = await client.list(
                    CORE_EVENTS, self._key.namespace, field_selector=selector
                )
            except ApiError:
                break
            found += listed.items
        return found

    async def _past(self) -> JobRow | None:
        """Return what the history knows; without it the timeline begins with existing Events."""
        workload = self._workload()
        uid = workload["metadata"].get("uid") if workload is not None else None
        if not uid:
            return None
        return await self._history.job(self._credential, self._key.namespace, str(uid))
