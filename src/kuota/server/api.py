# SPDX-License-Identifier: Apache-2.0
"""The embedded API server without a transport: converts a request into a response.

Every request gets a response. Rejections and internal errors are Status objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.status import StatusError, bad_request, not_allowed, unauthorized
from kuota.failures import report, retried
from kuota.steady_time import SHARED

from . import crd
from .admission import AdmissionChain, Adviser, Hook, Validator
from .auth import TEAM, AccessAttributes, Roles, known, refusal
from .builtin_kinds import CRD_GROUP, builtin_kinds
from .collector import Collector, StoreWriter
from .columns import dig
from .credentials import ServerTokens
from .deletion import ANYWHERE, PodDeletion
from .documents import DiscoveryDocuments
from .fairness import FairQueue
from .kinds import Kind, Kinds
from .metadata import timestamp
from .namespaces import ACCOUNTS, Namespaces
from .object_quota import NamespaceLimits, ObjectQuota
from .owner_rights import owner_hook
from .pods import LogSource, priority_hook
from .policies import AdmissionPolicies
from .rbac import RoleObjects, bound_roles, check_write
from .reading import ReadEndpoints
from .requests import ADMINS, Request, RequestTarget, Response, User, refused, target
from .rest import Rest
from .reviews import LocalReviews
from .run_as import author_hook, run_as_hook
from .status import body_too_large, forbidden
from .store import NoSpace, Store, StoreError, key_of
from .streaming.pod_sessions import SUBRESOURCES, PodProcesses
from .tokens import TokenFile, Tokens
from .verbs import RunnerAccess, Verbs
from .watching import Watching

LOG = logging.getLogger(__name__)
LARGEST_BODY = 3 * 1024 * 1024
_CRDS = f"customresourcedefinitions.{CRD_GROUP}"


class Extension(Protocol):
    """An API group that is served beside the stored ones.

    Serves every path under its `prefix`, such as `/apis/GROUP`.
    """

    prefix: str

    def access(self, request: Request) -> AccessAttributes:
        """The access that the request needs; the same roles decide as for other requests."""

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """The response to an authorized request. Raises StatusError."""


def _now() -> datetime:
    return datetime.fromtimestamp(SHARED.now(), UTC)


class ApiServer:
    """Serves a store. `start` resumes unfinished deletions, and `close` stops background tasks.

    `tokens` are those of the token file. `extensions` serve their own groups and may be added at
    any time.
    """

    def __init__(
        self,
        store: Store,
        kinds: Kinds | None = None,
        *,
        tokens: Tokens | TokenFile | None = None,
        clock: Callable[[], datetime] = _now,
        hooks: Sequence[Hook] = (),
        advisers: Sequence[Adviser] = (),
        validators: Sequence[Validator] = (),
        logs: LogSource | None = None,
        processes: PodProcesses | None = None,
        pods: PodDeletion = ANYWHERE,
        gates: Gates | None = None,
        fair_queue: FairQueue | None = None,
        limits: NamespaceLimits | None = None,
    ) -> None:
        self.store = store
        self.fair_queue = fair_queue or FairQueue()
        self.kinds = kinds or builtin_kinds()
        self.roles = Roles(self._team_of, bound_roles(store))
        self.credentials = ServerTokens(store, self.roles, clock, tokens)
        self.extensions: list[Extension] = []
        self.on_response: Callable[[Request, int, float], None] = lambda *_: None
        """Called for every response, with its status and the seconds until it began."""
        self._clock = clock
        self._quota = ObjectQuota(store, limits)
        hooks = (*self._own_hooks(), *hooks, self._quota.hook)
        validators = (*validators, AdmissionPolicies(store, self.kinds))
        admission = AdmissionChain(hooks, gates, (*advisers, self._quota.advice), validators)
        self._rest = Rest(store, self.kinds, admission, self._written, pods)
        self._reading = ReadEndpoints(store, clock, self.fair_queue)
        self._namespaces = Namespaces(store, self.kinds, clock)
        self._documents = DiscoveryDocuments(self.kinds)
        self.watching = Watching(store, self._reading, self.fair_queue)
        reviews = LocalReviews(self.roles, self.kinds, self.credentials)
        access = self.credentials, store, clock, RunnerAccess(logs, processes)
        self._verbs = Verbs(self._rest, self._reading, self.watching, reviews, *access)
        self._role_objects = RoleObjects(store, self.kinds, clock)
        self._begin()

    def _begin(self) -> None:
        self._background: list[asyncio.Task[None]] = []
        self._provisional = {kind.resource: kind for kind in self.kinds if kind.provisional}
        self._builtin = frozenset(kind.group for kind in self.kinds if not kind.provisional)
        self._namespaces.found()
        for each in self.store.list(_CRDS).items:
            self._install(each)
        self._role_objects.refresh()

    def _own_hooks(self) -> tuple[Hook, ...]:
        author = (run_as_hook, author_hook, priority_hook(self.store))
        return (owner_hook(self.kinds), *author)

    async def start(self) -> None:
        """Start the garbage collector, and resume unfinished deletions."""
        if not self._background:
            writer = StoreWriter(
                self.store, self.kinds, self._clock, self._written, self._rest.pods
            )
            # A failed collector may have missed changes, so a new one examines all objects.
            work = retried(
                "garbage collector", lambda: Collector(self.store, self.kinds, writer).run()
            )
            published = retried("ResourceQuota controller", self._quota.publish)
            self._background = [asyncio.create_task(each) for each in (work, published)]
        self._namespaces.resume(self._rest)

    async def close(self) -> None:
        for each in self._background:
            each.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._background = []
        await self._namespaces.close()

    async def handle(self, request: Request) -> Response:
        """The response to a request. Never raises."""
        began = time.perf_counter()
        response = await self._handled(request)
        self.on_response(request, response.status, time.perf_counter() - began)
        return response

    async def _handled(self, request: Request) -> Response:
        try:
            if len(request.body) > LARGEST_BODY:
                raise body_too_large(LARGEST_BODY)
            return await self._answer(self._as_user(request))
        except StatusError as error:
            return refused(error)
        except RecursionError:
            return refused(bad_request("the request is nested too deep"))
        except NoSpace as error:
            return refused(StatusError(507, "InsufficientStorage", str(error)))
        except StoreError as error:
            LOG.error("%s %s: %s", request.method, request.path, error)
            return refused(StatusError(500, "InternalError", f"the store failed: {error}"))
        except Exception as error:
            report("API server", error, f"{request.method} {request.path} failed")
            message = f"an error on the server: {type(error).__name__}"
            return refused(StatusError(500, "InternalError", message))

    async def _answer(self, request: Request) -> Response:
        for each in self.extensions:
            if f"{request.path}/".startswith(f"{each.prefix}/"):
                self._authorize(request.user, each.access(request))
                async with self.fair_queue.turn(request.user.flow):
                    answer = each.answer(request)
                return answer if isinstance(answer, Response) else await answer
        document = self._documents.answer(request)
        if document is not None:
            self._authorize(request.user, AccessAttributes(verb="get", path=request.path))
            return document
        found = target(self.kinds, request.path)
        access = _access(found, request)
        self._authorize(request.user, access, found.kind)
        check_write(found, access.verb)
        async with self.fair_queue.turn(request.user.flow) as turn:
            response = await self._verbs.answer(found, access.verb, request, turn)
        if access.verb not in ("get", "list", "watch"):
            await self.store.synced()
        if response.long_running or response.session is not None:
            user = request.user
            return msgspec.structs.replace(
                response, allowed=lambda: self.roles.allows(user, access)
            )
        return response

    def _as_user(self, request: Request) -> Request:
        """The request with the impersonated user, if an admin impersonates one."""
        name = request.headers.get("impersonate-user", "")
        if not name:
            return request
        if ADMINS not in request.user.groups:
            message = f'User "{request.user.name}" cannot impersonate others'
            raise StatusError(403, "Forbidden", message)
        groups = request.headers.get("impersonate-group", "")
        named = tuple(group.strip() for group in groups.split(",") if group.strip())
        user = User(name, (*named, "system:authenticated"))
        return msgspec.structs.replace(request, user=user)

    def _authorize(self, user: User, access: AccessAttributes, kind: Kind | None = None) -> None:
        if self.roles.allows(user, access):
            return
        if not known(user):
            raise unauthorized()
        why = refusal(user, access)
        if kind is None:
            raise StatusError(403, "Forbidden", f"forbidden: {why}")
        raise forbidden(kind, access.name, why)

    def _team_of(self, namespace: str) -> str:
        found = self.store.get("namespaces", Key("", namespace))
        return str(dig(found, "metadata", "labels", TEAM) or "")

    def _written(self, kind: Kind, obj: Json, gone: bool) -> None:
        """React to written CustomResourceDefinitions, namespaces and service accounts."""
        if kind.resource == "namespaces":
            if not gone and dig(obj, "metadata", "deletionTimestamp"):
                self._namespaces.terminate(str(dig(obj, "metadata", "name")), self._rest)
            elif not gone:
                self._role_objects.namespace_changed(obj)
                self._namespaces.complete(str(dig(obj, "metadata", "name")))
        elif kind.resource == ACCOUNTS:
            if gone:
                self._namespaces.complete(str(dig(obj, "metadata", "namespace")))
        elif kind.resource == _CRDS:
            (self._uninstall if gone else self._install)(obj)
            self._role_objects.kinds_changed()

    def _install(self, definition: Json) -> None:
        if dig(definition, "metadata", "deletionTimestamp"):
            return
        if dig(definition, "spec", "group") not in self._builtin:
            self.kinds.add(crd.kind_of(definition))
        current = crd.established(definition, timestamp(self._clock()))
        if current != definition:
            self.store.update(_CRDS, current, None)

    def _uninstall(self, definition: Json) -> None:
        """Delete all objects of a kind whose definition was deleted.

        A kind that this server defines itself is served by that definition again.
        """
        if dig(definition, "spec", "group") in self._builtin:
            return
        resource = str(dig(definition, "metadata", "name"))
        self.kinds.remove(resource)
        for obj in self.store.list(resource).items:
            self.store.delete(resource, key_of(obj))
        if resource in self._provisional:
            self.kinds.add(self._provisional[resource])


def _access(found: RequestTarget, request: Request) -> AccessAttributes:
    """The access that the request needs. Raises StatusError for an unsupported method."""
    try:
        verb = found.verb(request.method, request.flag("watch"))
    except KeyError:
        raise not_allowed(f"method {request.method[:20]} is not served") from None
    if found.subresource in SUBRESOURCES and request.method == "GET":
        verb = "create"  # WebSockets begin with GET, but the client gains the same power.
    return AccessAttributes(
        verb=verb,
        group=found.kind.group,
        resource=found.kind.plural,
        subresource=found.subresource,
        namespace=found.namespace,
        name=found.name,
    )
