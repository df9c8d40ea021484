# SPDX-License-Identifier: Apache-2.0
"""Finds the view that a request names. Viewers of the same view share it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web

from kuota.api.base import Key
from kuota.api.status import bad_request
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, NotFound
from kuota.view.devices import DEVICES_PATH, DeviceRow

from .access import ViewerAccess
from .feed import Feed
from .models.nodes import nodes_model
from .models.topology import topology_model
from .models.tree import tree_model
from .models.visible import visible as shown_to
from .rows import Rows
from .scopes import NEEDED, Scope, visible
from .shapes import Shape
from .viewer_history import ViewerHistory
from .viewers import Viewer
from .views import Load, QueueView, View, WholeView, WorkloadsView
from .workload_view import WorkloadView

DEVICES_S = 3.0
"""How often the readings of devices are read."""
ReadDevices = Callable[[], Awaitable[list[DeviceRow]]]
"""Returns devices with their holders. Raises ApiError, or ValidationError of msgspec."""
_QUOTA = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Workload")
_PLACES = ("Node", "Pod", "Workload", "Topology", "ResourceFlavor")


class Catalog:
    """All views of one dashboard."""

    def __init__(
        self,
        feed: Feed,
        access: ViewerAccess,
        client: Client,
        history: ViewerHistory,
        devices: ReadDevices,
    ) -> None:
        self._feed = feed
        self._access = access
        self._client = client
        self._history = history
        self._read_rows = devices
        self._rows = Rows(feed)
        self._load = Load()
        self._devices: list[DeviceRow] = []
        self._note = ""
        self._read_at = 0.0
        self._shared: WeakValueDictionary[tuple[str, str], View] = WeakValueDictionary()

    def find(self, request: web.BaseRequest, viewer: Viewer) -> View:
        """Return the view. Raises StatusError if the request names none."""
        query = request.rel_url.query
        name = query.get("view", "")
        if name not in NEEDED:
            raise bad_request(f"view must be one of {', '.join(sorted(NEEDED))}")
        if name == "workload":
            key = Key(_named(request, "namespace"), _named(request, "name"))
            return WorkloadView(
                key,
                self._feed,
                self._load,
                self._client,
                self._access,
                viewer.credential,
                self._current_devices,
                self._history,
            )
        which = _named(request, "name") if name == "queue" else ""
        found = self._shared.get((name, which))
        if found is None:
            found = self._shared[name, which] = self._new(name, which)
        return found

    def _new(self, name: str, which: str) -> View:
        if name == "workloads":
            return WorkloadsView(self._rows)
        if name == "queue":
            return QueueView(self._feed, self._rows, self._load, which)
        whole: dict[str, tuple[Callable[[Scope], Awaitable[Shape]], tuple[str, ...]]] = {
            "tree": (self._tree, _QUOTA),
            "topology": (self._topology, _PLACES),
            "nodes": (self._nodes, _PLACES),
        }
        model, kinds = whole[name]
        refresh_s = DEVICES_S if name == "nodes" else None
        return WholeView(name, self._feed, self._load, kinds, model, refresh_s)

    async def _tree(self, scope: Scope) -> Shape:
        model = tree_model(self._feed.state)
        return shown_to(model, lambda each: visible(scope.local_queues, each))

    async def _topology(self, scope: Scope) -> Shape:
        model = topology_model(self._feed.state)
        return shown_to(model, lambda each: visible(scope.workloads, each))

    async def _nodes(self, scope: Scope) -> Shape:
        devices = await self._current_devices()
        model = nodes_model(self._feed.state, devices, self._note)
        # A node's contents name pods and Workloads, so both must be readable.
        return shown_to(
            model,
            lambda each: visible(scope.pods, each) and visible(scope.workloads, each),
        )

    async def _current_devices(self) -> list[DeviceRow]:
        """Return the devices with all their holders, which are hidden from viewers afterwards."""
        if time.monotonic() >= self._read_at:
            self._read_at = time.monotonic() + DEVICES_S
            await self._read_devices()
        return self._devices

    async def _read_devices(self) -> None:
        try:
            self._devices = await self._read_rows()
            self._note = ""
        except NotFound:
            self._note = (
                "this server does not report which pod holds which device; on a cluster, name the "
                "exporters of GPUs with deviceMetrics (docs/metrics.md)"
            )
        except (ApiError, msgspec.ValidationError) as error:
            self._note = f"the devices cannot be read: {error}"


async def machine_devices(client: Client) -> list[DeviceRow]:
    """Return the devices that the API server of one machine reports. A `ReadDevices`."""
    answer = await client.fetch(DEVICES_PATH)
    return msgspec.convert(answer.get("items"), list[DeviceRow])


def _named(request: web.BaseRequest, parameter: str) -> str:
    found = request.rel_url.query.get(parameter, "")
    if not found or len(found) > 253 or "/" in found or "%" in found:
        raise bad_request(f"{parameter} must be the name of an object")
    return str(found)
