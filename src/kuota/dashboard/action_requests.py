# SPDX-License-Identifier: Apache-2.0
"""Requests of actions. A dashboard is read-only unless its admin enables actions."""

from __future__ import annotations

from aiohttp import web

from kuota.kube.client import Client

from .access import ProxiedUser, ViewerAccess
from .actions import Actions, ReviewedClient, parse_request
from .http import body_of
from .responses import answered, forbidden
from .shapes import ActionRequest, ActionResult
from .viewers import Viewer


class ActionRequests:
    """Carries out actions as the viewer. `client` has the permissions of the dashboard itself."""

    def __init__(self, access: ViewerAccess, client: Client, *, enabled: bool) -> None:
        self._access = access
        self._client = client
        self._actions = Actions(client)
        self._enabled = enabled

    async def answer(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        """Carry out the action. Raises StatusError, and KubeError if the API server rejects it."""
        body = await body_of(request)
        if not self._enabled:
            raise forbidden(
                "this dashboard is read-only; an admin enables actions with --dashboard-actions"
            )
        return answered(await self._carried_out(parse_request(body), viewer))

    async def _carried_out(self, wanted: ActionRequest, viewer: Viewer) -> ActionResult:
        user = viewer.user
        if isinstance(viewer.credential, ProxiedUser):
            # Such a viewer is known only by name, so the API server is asked before each request.
            reviewed = ReviewedClient(
                self._client, lambda access: self._access.allows(user, access)
            )
            return await self._actions.carry_out(wanted, user.name, reviewed)
        async with self._access.client(viewer.credential) as client:
            return await self._actions.carry_out(wanted, user.name, client)
