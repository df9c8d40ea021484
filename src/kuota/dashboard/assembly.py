# SPDX-License-Identifier: Apache-2.0
"""Connects the parts of a dashboard. The machine and the cluster differ in what they pass in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from kuota.kube.client import Client
from kuota.view.observed import ObservedState

from .access import ViewerAccess
from .action_requests import ActionRequests
from .catalog import Catalog, ReadDevices, machine_devices
from .feed import Feed
from .http import Dashboard, SessionPage
from .logs import Logs
from .reports import Reports
from .scopes import Scopes
from .sessions import Sessions
from .stream import StreamLimits, Streams
from .viewer_history import ViewerHistory
from .viewers import ProxyUser, Viewers


def _no_proxy(request: object) -> None:
    return None


class DashboardDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What a dashboard needs.

    `client` has the permissions of the dashboard itself, and reads what all viewers share.
    `devices` reads devices; None if the API server reports them. Without `actions`, nothing can be
    changed. Permissions are cached for `recheck_s`. `server` is "machine" or "cluster".
    """

    access: ViewerAccess
    client: Client
    namespaces: Callable[[], Awaitable[list[str]]]
    new_state: Callable[[], ObservedState]
    server: str
    recheck_s: float
    proxy_user: ProxyUser = _no_proxy
    devices: ReadDevices | None = None
    actions: bool = False


class AssembledDashboard(msgspec.Struct, frozen=True):
    """A dashboard, with what its owner closes or uses."""

    dashboard: Dashboard
    sessions: Sessions
    feed: Feed
    open_streams: StreamLimits


def assembled(given: DashboardDependencies) -> AssembledDashboard:
    """Return a dashboard that is ready to answer requests."""
    sessions = Sessions(time.monotonic)
    viewers = Viewers(given.access, sessions, time.monotonic, given.proxy_user)
    scopes = Scopes(given.access, given.namespaces, ttl_s=given.recheck_s)
    feed, open_streams = Feed(given.client, given.new_state), StreamLimits()
    history = ViewerHistory(given.access, given.client)
    devices = given.devices or partial(machine_devices, given.client)
    catalog = Catalog(feed, given.access, given.client, history, devices)
    dashboard = Dashboard(viewers)
    dashboard.readers["session"] = SessionPage(
        scopes, server=given.server, actions=given.actions
    ).answer
    dashboard.streams |= {
        "stream": Streams(feed, scopes, viewers, catalog.find, open_streams).answer,
        "logs": Logs(given.access, given.client, viewers, open_streams).answer,
    }
    acting = ActionRequests(given.access, given.client, enabled=given.actions)
    dashboard.writers["actions"] = acting.answer
    reports = Reports(history, feed, scopes)
    dashboard.readers |= {
        "history": reports.history,
        "usage": reports.usage,
        "waste": reports.waste,
        "teams": reports.teams,
    }
    return AssembledDashboard(dashboard, sessions, feed, open_streams)
