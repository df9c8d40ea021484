# SPDX-License-Identifier: Apache-2.0
"""The routes of the dashboard, below /dashboard: pages, files, and the API of the pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from kuota import __version__
from kuota.api.status import StatusError, bad_request, not_allowed, too_large
from kuota.kube.access import UserInfo
from kuota.kube.errors import KubeError
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS

from .access import ADMINS
from .responses import answered, from_kube, not_found, plain, refused
from .scopes import Namespaces, Scopes
from .shapes import SessionModel
from .static_files import INDEX, StaticFiles
from .viewers import Viewer, Viewers, check_origin

PREFIX = "/dashboard"
API = f"{PREFIX}/api/"
STATIC = f"{PREFIX}/static/"
LARGEST_BODY = 64 << 10
BODY_S = 30.0
"""How long a client may take to send a body."""
_PAGE = re.compile(r"[\w./~%:@!$&'()*+,;=-]*", re.ASCII)

Handler = Callable[[web.BaseRequest, Viewer], Awaitable[web.StreamResponse]]
"""Responds to an authenticated request. Raises StatusError or KubeError."""


class Dashboard:
    """Answers requests. `readers`, `streams` and `writers` are the endpoints of the API, by name.

    A stream has no length that a response to HEAD could state.
    """

    def __init__(self, viewers: Viewers, files: StaticFiles | None = None) -> None:
        self.viewers = viewers
        self.readers: dict[str, Handler] = {}
        self.streams: dict[str, Handler] = {}
        self.writers: dict[str, Handler] = {"sign-out": self._sign_out}
        self._files = files or StaticFiles()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to a request below the prefix. Never raises for bad requests."""
        try:
            return await self._answer(request)
        except StatusError as refusal:
            return _closing(request, refused(refusal))
        except KubeError as error:
            return refused(from_kube(error))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path.startswith(API):
            return await self._api(request, path.removeprefix(API))
        _require(request, "GET", "HEAD")
        if await self.viewers.find(request) is None:
            # Without credentials, a connection is used for one request.
            response = self._page(request, path)
            response.force_close()
            return response
        return self._page(request, path)

    def _page(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == PREFIX:
            response = plain(b"", "text/plain", 307)
            response.headers["Location"] = f"{PREFIX}/"
            return response
        if path.startswith(STATIC):
            return self._files.response(path.removeprefix(STATIC), request)
        if not _PAGE.fullmatch(path):
            raise not_found("the dashboard has no such page")
        return self._files.response(INDEX, request)

    async def _api(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        check_origin(request)
        if name == "sign-in":
            _require(request, "POST")
            return await self.viewers.sign_in(request, await body_of(request))
        handler = self._handler(request, name)
        viewer = await self.viewers.identify(request)
        if name in self.writers:
            self.viewers.check_change(request, viewer)
        return await handler(request, viewer)

    def _handler(self, request: web.BaseRequest, name: str) -> Handler:
        """Return the endpoint. Raises Refusal if there is none, or not for this method."""
        for table, methods in (
            (self.readers, ("GET", "HEAD")),
            (self.streams, ("GET",)),
            (self.writers, ("POST",)),
        ):
            if name in table:
                _require(request, *methods)
                return table[name]
        raise not_found("the dashboard has no such path")

    async def _sign_out(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        await body_of(request)
        return self.viewers.sign_out(request)


class SessionPage:
    """Responds with the session of the viewer."""

    def __init__(self, scopes: Scopes, *, server: str, actions: bool) -> None:
        self._scopes = scopes
        self._server = server
        self._actions = actions

    async def answer(self, request: web.BaseRequest, viewer: Viewer) -> web.Response:
        user = viewer.user
        found = (await self._scopes.of(user)).workloads
        return answered(
            SessionModel(
                user=user.name,
                groups=list(user.groups),
                role=_role(user, found),
                namespaces=None if found is None else sorted(found),
                csrf=viewer.csrf,
                server=self._server,
                version=__version__,
                actions=self._actions,
                changes=await self._changes(user) if self._actions else {},
            )
        )

    async def _changes(self, user: UserInfo) -> dict[str, list[str] | None]:
        found = {
            each.kind: await self._scopes.changeable(user, each)
            for each in (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES)
        }
        return {kind: None if each is None else sorted(each) for kind, each in found.items()}


def _role(user: UserInfo, namespaces: Namespaces) -> str:
    """Return a word for the permissions, which the pages show."""
    if ADMINS in user.groups:
        return "admin"
    return "member" if namespaces is None or namespaces else "viewer"


async def body_of(request: web.BaseRequest) -> bytes:
    """Return the body. Raises StatusError if it is too large, too slow or malformed."""
    if (request.content_length or 0) > LARGEST_BODY:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > LARGEST_BODY:
                    raise _too_large()
    except TimeoutError:
        raise StatusError(
            408, "Timeout", f"the body was not complete after {BODY_S:.0f} s"
        ) from None
    except (HttpProcessingError, RequestPayloadError):
        raise bad_request("the body cannot be read") from None
    return bytes(body)


def _too_large() -> StatusError:
    message = f"the body is larger than {LARGEST_BODY >> 10} KiB"
    return too_large(message)


def _require(request: web.BaseRequest, *methods: str) -> None:
    if request.method not in methods:
        words = " or ".join(methods)
        raise not_allowed(f"this path is served with {words} only")


def _closing(request: web.BaseRequest, response: web.Response) -> web.Response:
    """Close the connection if the body of the request was not read."""
    if request.body_exists:
        response.force_close()
    return response
