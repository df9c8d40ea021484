# SPDX-License-Identifier: Apache-2.0
"""Dispatches authorized requests by verb and target."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.managed_fields import manager_name
from kuota.api.status import StatusError, bad_request, not_allowed

from . import deletion, jsonpath, pods
from .admission import Write
from .bodies import check_json_values, duplicates, media_type, most_values, read_object
from .columns import dig, mapped
from .credentials import ServerTokens
from .fairness import RequestTurn
from .kinds import Scale, served_form
from .pods import LogSource
from .reading import ListScan, ReadEndpoints
from .requests import TEXT, Request, RequestTarget, Response, answered
from .rest import APPLY_PATCH, Rest, WriteResult, patched_json
from .reviews import LocalReviews
from .selectors import requested
from .service_account_tokens import token_request, token_response
from .status import SUCCESS, deleted, expired, no_such_path
from .store import Gone, Store, key_of
from .streaming.pod_sessions import PodProcesses, pod_session
from .watching import Watching

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OF_ONE = ("update", "patch")
_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_NO_RUNNER = StatusError(501, "NotImplemented", "nothing on this server runs pods")


class RunnerAccess(msgspec.Struct, frozen=True):
    """The logs and processes of pods; None on a server that runs no pods."""

    logs: LogSource | None = None
    processes: PodProcesses | None = None


class Verbs:
    """Handles authorized requests."""

    def __init__(
        self,
        rest: Rest,
        reading: ReadEndpoints,
        watching: Watching,
        reviews: LocalReviews,
        credentials: ServerTokens,
        store: Store,
        clock: Callable[[], datetime],
        runner: RunnerAccess,
    ) -> None:
        self._rest = rest
        self._reading = reading
        self._watching = watching
        self._reviews = reviews
        self._credentials = credentials
        self._store = store
        self._clock = clock
        self._runner = runner

    async def answer(
        self, target: RequestTarget, verb: str, request: Request, turn: RequestTurn
    ) -> Response:
        """The response to an authorized request. Long requests pause the turn."""
        below = {
            "binding": self._bind,
            "eviction": self._evict,
            "finalize": self._read_back,
            "log": self._log,
            **dict.fromkeys(("exec", "attach", "portforward"), self._session),
            "scale": self._scale,
            "token": self._token,
        }.get(target.subresource)
        if below is not None:
            if target.subresource == "log":
                turn.end()  # It waits for the first output.
            return await below(target, verb, request)
        if target.subresource == "status" and verb not in ("get", "update", "patch"):
            raise not_allowed(f"{verb} is not served on status")
        misplaced = bool(target.name) if verb == "create" else verb in _OF_ONE and not target.name
        if verb not in target.kind.verbs or misplaced:
            raise not_allowed(f"{verb} is not served on {target.kind.resource}")
        if not target.kind.kept:
            reviewed = self._reviews.reviewed(target, self._object(target, request), request.user)
            return answered(reviewed, 201)
        if verb == "list":
            return await self._reading.many(target, request, turn)
        if verb == "deletecollection":
            return await self._delete_all(target, request, turn)
        answers: dict[str, Callable[[RequestTarget, Request], Response]] = {
            "get": lambda target, request: self._reading.one(
                target, self._rest.read(target), request
            ),
            "watch": self._watching.stream,
            "create": self._create,
            "update": self._replace,
            "patch": self._patch,
            "delete": self._delete,
        }
        return answers[verb](target, request)

    def _create(self, target: RequestTarget, request: Request) -> Response:
        return self._shown(target, self._rest.create(target, *self._body(target, request)), request)

    def _replace(self, target: RequestTarget, request: Request) -> Response:
        return self._shown(
            target, self._rest.replace(target, *self._body(target, request)), request
        )

    def _patch(self, target: RequestTarget, request: Request) -> Response:
        media, body, twice = media_type(request.headers), request.body, []
        if self._checks(request) and body.lstrip()[:1] in (b"{", b"["):
            check_json_values(body, most_values(request.user, target.kind))
            twice = duplicates(body, "")
        write = self._write(request, twice)
        force = request.flag("force")
        if force and media != APPLY_PATCH:
            raise bad_request("force is for apply patches only")
        outcome = self._rest.patch(target, media, body, write, force=force)
        return self._shown(target, outcome, request)

    def _delete(self, target: RequestTarget, request: Request) -> Response:
        options = deletion.delete_options(request)
        outcome = self._rest.delete(target, options, self._write(request))
        if not outcome.gone or target.kind.resource == "pods":
            return self._shown(target, outcome, request)
        uid = str(outcome.object["metadata"].get("uid", ""))
        return answered(deleted(target.kind, target.name, uid))

    async def _delete_all(
        self, target: RequestTarget, request: Request, turn: RequestTurn
    ) -> Response:
        options, write = deletion.delete_options(request), self._write(request)
        scan = ListScan(self._store, target, requested(target, request), None, None)
        try:
            for bodies in scan.pages():
                for body in bodies:
                    key = key_of(msgspec.json.decode(body))
                    one = RequestTarget(target.kind, target.version, key.namespace, key.name)
                    try:
                        self._rest.delete(one, options, write)
                    except StatusError as error:
                        if error.reason != "NotFound":
                            raise
                    await turn.pause()
        except Gone as error:
            raise expired(f"not all objects were deleted; repeat the request: {error}") from None
        return answered(deleted(target.kind))

    async def _bind(self, target: RequestTarget, verb: str, request: Request) -> Response:
        if verb != "create":
            raise not_allowed("a binding can only be created")
        pod = self._rest.read(target)
        binding = self._object(target, request)
        wanted = pods.bound(target.kind, pod, binding, self._clock())
        if not deletion.dry_run(request):
            self._store.update(target.kind.stored_as, wanted, None)
        return answered(SUCCESS | {"code": 201}, 201)

    async def _evict(self, target: RequestTarget, verb: str, request: Request) -> Response:
        """Handle an eviction as a deletion. There are no disruption budgets."""
        if verb != "create":
            raise not_allowed("an eviction can only be created")
        body = self._object(target, request)
        inner = msgspec.json.encode(body.get("deleteOptions") or {})
        options = deletion.delete_options(msgspec.structs.replace(request, headers={}, body=inner))
        self._rest.delete(target, options, self._write(request))
        return answered(SUCCESS | {"code": 201}, 201)

    async def _read_back(self, target: RequestTarget, verb: str, request: Request) -> Response:
        """Return the namespace unchanged: the server finalizes namespaces itself."""
        return self._reading.one(target, self._rest.read(target), request)

    async def _log(self, target: RequestTarget, verb: str, request: Request) -> Response:
        if verb != "get":
            raise not_allowed("a log can only be read")
        pod = self._rest.read(target)
        options = pods.log_options(pod, request)
        if self._runner.logs is None:
            raise _NO_RUNNER
        pods.check_started(pod, options)
        try:
            stream = await _begun(self._runner.logs(pod, options))
        except LookupError as error:
            raise StatusError(404, "NotFound", f"no log of pod {target.name}: {error}") from None
        return Response(200, stream, TEXT, long_running=True)

    async def _token(self, target: RequestTarget, verb: str, request: Request) -> Response:
        if verb != "create":
            raise not_allowed("a token can only be created")
        account = self._rest.read(target)
        body = self._object(target, request)
        wanted_s = token_request(account, body)
        issued = self._credentials.service_accounts.issue(
            account, request.user, wanted_s, dry_run=deletion.dry_run(request)
        )
        return answered(token_response(account, issued, self._clock()), 201)

    async def _session(self, target: RequestTarget, verb: str, request: Request) -> Response:
        if verb != "create":
            raise not_allowed(f"{target.subresource} can only be opened, with GET or POST")
        pod = self._rest.read(target)
        processes = self._runner.processes
        if processes is None:
            raise _NO_RUNNER
        session = pod_session(target.kind, pod, target.subresource, request, processes)
        return Response(101, b"", session=session)

    async def _scale(self, target: RequestTarget, verb: str, request: Request) -> Response:
        path = target.version.scale
        if path is None:
            raise no_such_path()
        stored = self._rest.read(target)
        whole = served_form(target.kind, stored, target.version.name)
        current = _scale_of(whole, path)
        if verb == "get":
            return answered(current)
        if verb == "update":
            wanted = self._object(target, request)
        elif verb == "patch":
            media, most = media_type(request.headers), most_values(request.user, target.kind)
            wanted = patched_json(current, target.kind, media, request.body, most)
        else:
            raise not_allowed(f"{verb} is not served on scale")
        plain = RequestTarget(target.kind, target.version, target.namespace, target.name)
        new = _scaled(whole, wanted, path)
        outcome = self._rest.replace(plain, new, self._write(request), "scale")
        shown = served_form(target.kind, outcome.object, target.version.name)
        return answered(_scale_of(shown, path))

    def _shown(self, target: RequestTarget, outcome: WriteResult, request: Request) -> Response:
        answer = self._reading.one(target, outcome.object, request)
        status, warnings = 201 if outcome.created else 200, (*answer.warnings, *outcome.warnings)
        return msgspec.structs.replace(answer, status=status, warnings=warnings)

    def _object(self, target: RequestTarget, request: Request) -> Json:
        most = most_values(request.user, target.kind)
        return read_object(request.body, media_type(request.headers), most)

    def _body(self, target: RequestTarget, request: Request) -> tuple[Json, Write]:
        media, body = media_type(request.headers), self._object(target, request)
        twice = duplicates(request.body, media) if self._checks(request) else []
        return body, self._write(request, twice)

    def _checks(self, request: Request) -> bool:
        return request.query.get("fieldValidation") in ("Strict", "Warn")

    def _write(self, request: Request, twice: list[str] | None = None) -> Write:
        validation = request.query.get("fieldValidation", "")
        if validation not in _VALIDATIONS:
            raise bad_request(f"fieldValidation={validation[:60]} is none of {_VALIDATIONS[1:]}")
        given = request.query.get("fieldManager", "")
        if len(given) > 128:
            raise bad_request("fieldManager may not be longer than 128 characters")
        return Write(
            user=request.user,
            now=self._clock(),
            manager=manager_name(given, request.headers.get("user-agent", "")),
            dry_run=deletion.dry_run(request),
            validation=validation,
            duplicates=tuple(twice or ()),
        )


async def _begun(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream, after its first element is known to exist."""
    try:
        first = await anext(stream)
    except StopAsyncIteration:
        first = b""
    return _resumed(first, stream)


async def _resumed(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _scale_of(obj: Json, scale: Scale) -> Json:
    """The Scale object of `obj`."""
    metadata = {key: obj["metadata"][key] for key in _SHOWN if key in obj["metadata"]}
    status: Json = {"replicas": _count(obj, scale.status_replicas)}
    selector = jsonpath.first(obj, scale.selector) if scale.selector else None
    if isinstance(selector, str):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _count(obj, scale.spec_replicas)},
        "status": status,
    }


def _scaled(obj: Json, wanted: Json, scale: Scale) -> Json:
    """The object with the number of replicas in the Scale object."""
    count = dig(wanted, "spec", "replicas")
    count = 0 if count is None else count
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise bad_request("spec.replicas must be a whole number, 0 or more")
    revision = dig(wanted, "metadata", "resourceVersion")
    result = _set(obj, scale.spec_replicas.strip(".").split("."), count)
    if revision:
        result["metadata"] = result["metadata"] | {"resourceVersion": revision}
    return result


def _count(obj: Json, path: str) -> int:
    value = jsonpath.first(obj, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _set(obj: Any, steps: list[str], value: int) -> Json:
    below = mapped(obj)
    inner: Any = value if len(steps) == 1 else _set(below.get(steps[0]), steps[1:], value)
    return below | {steps[0]: inner}
