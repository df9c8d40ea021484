# SPDX-License-Identifier: Apache-2.0
"""The dashboard of one machine: its permissions are the roles of the embedded server.

`kuota dashboard` requests a one-time code from an API group of its own, with the credentials that
it has anyway, and opens the sign-in page with it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from kuota.api.status import StatusError, bad_request, not_allowed, unauthorized
from kuota.dashboard.access import ISSUER, BearerToken, Credential, UnixPeer
from kuota.dashboard.assembly import AssembledDashboard, DashboardDependencies, assembled
from kuota.dashboard.http import PREFIX
from kuota.dashboard.sessions import CODE_S, CODES_PATH, GROUP, Sessions
from kuota.engine.policy import Policy
from kuota.kube.access import AccessRequest as AccessRequest
from kuota.kube.access import UserInfo
from kuota.kube.client import Client
from kuota.kube.errors import Forbidden
from kuota.server.api import ApiServer
from kuota.server.auth import AccessAttributes, known
from kuota.server.requests import Request, Response, User
from kuota.server.status import no_such_path
from kuota.server.unix_users import unix_user
from kuota.view.observed import ObservedState

from .local import LocalTransport, local_client

RECHECK_S = 1.0
"""How often the permissions of viewers are determined again."""


class MachineAccess:
    """A `kuota.dashboard.access.ViewerAccess` by the tokens and roles of the embedded server."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def user(self, credential: Credential) -> UserInfo | None:
        found = self._user(credential)
        return user_info(found) if found is not None else None

    async def allows(self, user: UserInfo, request: AccessRequest) -> bool:
        asked = AccessAttributes(
            verb=request.verb,
            group=request.group,
            resource=request.resource,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
            path=request.path,
        )
        return self._api.roles.allows(_server_user(user), asked)

    @asynccontextmanager
    async def client(self, credential: Credential) -> AsyncIterator[Client]:
        found = self._user(credential)
        if found is None:
            raise Forbidden(403, "Forbidden", "the credentials are not valid any more")
        yield Client(LocalTransport(self._api, found), managed_fields=False)

    async def namespaces(self) -> list[str]:
        """Return the names of all namespaces."""
        return [each["metadata"]["name"] for each in self._api.store.list("namespaces").items]

    def _user(self, credential: Credential) -> User | None:
        if isinstance(credential, BearerToken):
            return self._api.credentials.user(credential.text)
        if isinstance(credential, UnixPeer):
            return unix_user(credential.uid, os.getuid())
        return None  # No proxy is trusted on one machine.


class SignInCodes:
    """A `kuota.server.api.Extension` that issues one-time codes for the caller."""

    prefix = f"/apis/{GROUP}"

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def access(self, request: Request) -> AccessAttributes:
        """Everyone with credentials may sign in."""
        return AccessAttributes(verb="get", path=request.path)

    def answer(self, request: Request) -> Response:
        if request.path.rstrip("/") != CODES_PATH:
            raise no_such_path()
        if request.method != "POST":
            raise not_allowed("a sign-in code is created with POST")
        user = request.user
        code = self._sessions.issue_code(user.name, _credential(request), user.flow)
        body = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "SignInCode",
            "code": code,
            "path": f"{PREFIX}/sign-in",
            "expiresInSeconds": int(CODE_S),
        }
        return Response(201, msgspec.json.encode(body))


def machine_dashboard(
    api: ApiServer,
    policy: Policy | None = None,
    *,
    actions: bool = False,
) -> AssembledDashboard:
    """Return the dashboard of the server, and let the server issue codes for it.

    `policy` is that of the scheduler.
    """
    access = MachineAccess(api)
    found = assembled(
        DashboardDependencies(
            access=access,
            client=local_client(api),
            namespaces=access.namespaces,
            new_state=lambda: ObservedState(policy, charges_inactive=True),
            server="machine",
            recheck_s=RECHECK_S,
            actions=actions,
        )
    )
    api.extensions.append(SignInCodes(found.sessions))
    return found


def _credential(request: Request) -> Credential:
    """Return what the caller authenticated with. Raises StatusError for an impersonated user."""
    if "impersonate-user" in request.headers:
        raise bad_request("sign in with the user's own credentials; nobody can be impersonated")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return BearerToken(token.strip())
    if not known(request.user):
        raise unauthorized()
    if not request.user.uid.isdecimal():
        raise StatusError(403, "Forbidden", "this user cannot sign in to the dashboard")
    return UnixPeer(int(request.user.uid))


def user_info(user: User) -> UserInfo:
    extra = ((ISSUER, (user.issuer,)),) if user.issuer else ()
    return UserInfo(user.name, user.uid, user.groups, extra)


def _server_user(user: UserInfo) -> User:
    issuer = next((values[0] for name, values in user.extra if name == ISSUER), "")
    return User(user.name, user.groups, user.uid, issuer)
