# SPDX-License-Identifier: Apache-2.0
"""Identifies the viewer of each request, signs viewers in and out, and rejects forged requests.

A browser presents the cookie of its session. Programs may present a bearer token, and a trusted
authenticating proxy may name the user in headers. Whatever a browser adds to a request by itself,
such as a cookie, proves nothing about the page that sent the request: every change therefore needs
a value that only our own pages know.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from kuota.api.status import bad_request, too_many, unauthorized, unsupported_media
from kuota.kube.access import UserInfo
from kuota.kube.errors import KubeError
from kuota.listening import HttpServerConnection

from .access import BearerToken, Credential, ProxiedUser, ViewerAccess, flow_of
from .responses import empty, forbidden, from_kube
from .sessions import SESSION_S, BrowserSession, FailureLimit, Sessions

COOKIE = "kuota-session"
COOKIE_PATH = "/dashboard"
CSRF_HEADER = "X-Kuota-CSRF"
_LONGEST_SECRET = 16 << 10
_BEARER = "bearer"

ProxyUser = Callable[[web.BaseRequest], UserInfo | None]
"""Returns the user whom a trusted proxy names; None for all other requests."""


class Viewer(msgspec.Struct, frozen=True):
    """An authenticated user and how the user was identified. `csrf` is empty for programs."""

    user: UserInfo
    credential: Credential
    csrf: str = ""
    session: BrowserSession | None = None


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a sign-in: a one-time code or a token."""

    code: str = ""
    token: str = ""


class Viewers:
    """Authenticates requests."""

    def __init__(
        self,
        access: ViewerAccess,
        sessions: Sessions,
        clock: Callable[[], float],
        proxy_user: ProxyUser = lambda _: None,
    ) -> None:
        self._access = access
        self._sessions = sessions
        self._failures = FailureLimit(clock)
        self._proxy_user = proxy_user
        self._key = secrets.token_bytes(32)

    async def identify(self, request: web.BaseRequest) -> Viewer:
        """Return the viewer. Raises StatusError if the request has no valid credentials."""
        viewer = await self.find(request)
        if viewer is None:
            raise unauthorized("sign in first: `kuota dashboard` prints a link")
        count_connection(request, viewer.user)
        return viewer

    async def find(self, request: web.BaseRequest) -> Viewer | None:
        """Return the viewer; None if the request has no valid credentials."""
        try:
            return await self._found(request)
        except KubeError as error:
            raise from_kube(error) from None

    async def _found(self, request: web.BaseRequest) -> Viewer | None:
        named = self._proxy_user(request)
        if named is not None:
            return Viewer(named, ProxiedUser(named), self._proxied_csrf(named))
        header = request.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != _BEARER:
                return None
            bearer = BearerToken(token.strip())
            user = await self._access.user(bearer)
            return Viewer(user, bearer) if user is not None else None
        session = self._sessions.find(cookie_of(request))
        if session is None:
            return None
        user = await self._access.user(session.credential)
        if user is None or user.name != session.owner:
            return None
        return Viewer(user, session.credential, session.csrf, session)

    async def current(self, viewer: Viewer) -> UserInfo | None:
        """Return the user as of now; None if the session has ended or the credential is invalid."""
        if viewer.session is not None and not self._sessions.lasts(viewer.session):
            return None
        return await self._access.user(viewer.credential)

    async def sign_in(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Begin a session. Raises StatusError for a wrong code or token."""
        check_origin(request)
        check_json(request)
        wanted = _parsed(body)
        peer = _peer(request)
        credential = self._credential(wanted)
        user = await self._user(credential)
        # A valid code or token is always accepted: others at the same address must not prevent it.
        if credential is None or user is None:
            if self._failures.exceeded(peer):
                raise too_many("too many failed attempts to sign in; wait a minute and try again")
            self._failures.failed(peer)
            raise unauthorized(_wrong(wanted))
        self._sessions.end(cookie_of(request))
        response = empty()
        value = self._sessions.begin(user.name, credential, flow_of(user))
        _set_cookie(request, response, value, int(SESSION_S))
        return response

    def _credential(self, wanted: SignIn) -> Credential | None:
        """Return the credential, and use a code up; None for a wrong code."""
        if wanted.token:
            return BearerToken(wanted.token.strip())
        redeemed = self._sessions.redeem(wanted.code)
        return redeemed[1] if redeemed is not None else None

    def sign_out(self, request: web.BaseRequest) -> web.Response:
        """End the session of the request."""
        self._sessions.end(cookie_of(request))
        response = empty()
        _set_cookie(request, response, "", 0)
        return response

    def check_change(self, request: web.BaseRequest, viewer: Viewer) -> None:
        """Raise StatusError unless one of our own pages, or a program, sent this request."""
        check_origin(request)
        check_json(request)
        if isinstance(viewer.credential, BearerToken) and viewer.session is None:
            return  # No browser adds a bearer token to a request by itself.
        given = request.headers.get(CSRF_HEADER, "").encode(errors="surrogateescape")
        if not viewer.csrf or not hmac.compare_digest(given, viewer.csrf.encode()):
            raise forbidden(
                f"the header {CSRF_HEADER} is missing or wrong; reload the page and try again"
            )

    async def _user(self, credential: Credential | None) -> UserInfo | None:
        if credential is None:
            return None
        try:
            return await self._access.user(credential)
        except KubeError as error:
            raise from_kube(error) from None

    def _proxied_csrf(self, user: UserInfo) -> str:
        """Return the value for a user without a session. It changes when the server restarts."""
        return hmac.new(self._key, user.name.encode(), hashlib.sha256).hexdigest()


def check_origin(request: web.BaseRequest) -> None:
    """Raise StatusError for a request that a page of another origin sent."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin")
    own = origin is None or _host(origin) == request.headers.get("Host", "").lower()
    if site not in ("same-origin", "none") or not own:
        raise forbidden("this request comes from a page of another site")


def check_json(request: web.BaseRequest) -> None:
    """Raise StatusError unless the body is JSON, which forms of other sites cannot send."""
    if request.content_type.lower() != "application/json":
        raise unsupported_media("send the body as application/json")


def cookie_of(request: web.BaseRequest) -> str:
    """Return the value of our cookie; "" if there is none or if the header is malformed."""
    try:
        found = SimpleCookie(request.headers.get("Cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def count_connection(request: web.BaseRequest, user: UserInfo) -> None:
    """Count the connection as one of the user. Raises StatusError if there are too many."""
    connection = request.protocol
    if isinstance(connection, HttpServerConnection) and not connection.authenticated(flow_of(user)):
        raise too_many("this user has too many open connections")


def _set_cookie(request: web.BaseRequest, to: web.Response, value: str, age_s: int) -> None:
    to.set_cookie(
        COOKIE,
        value,
        max_age=age_s,
        path=COOKIE_PATH,
        httponly=True,
        samesite="Strict",
        secure=request.secure,
    )


def _parsed(body: bytes) -> SignIn:
    try:
        wanted = msgspec.json.decode(body, type=SignIn)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request('send {"code": "…"} or {"token": "…"}') from None
    if bool(wanted.code) == bool(wanted.token):
        raise bad_request("give either a code or a token")
    if max(len(wanted.code), len(wanted.token)) > _LONGEST_SECRET:
        raise bad_request("the code or token is too long")
    return wanted


def _wrong(wanted: SignIn) -> str:
    if wanted.token:
        return "the token is not valid"
    return "the code is wrong, was used or has expired; `kuota dashboard` prints a new link"


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _peer(request: web.BaseRequest) -> str:
    connection = request.protocol
    return connection.entry.peer if isinstance(connection, HttpServerConnection) else ""
