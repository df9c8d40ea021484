# SPDX-License-Identifier: Apache-2.0
"""The watch verb: streams changes as lines, with bookmarks and optional initial events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec

from kuota.api.base import Json
from kuota.api.status import StatusError

from .changes import Change, Watch
from .fairness import FairQueue
from .kinds import same_form
from .reading import ListScan, ReadEndpoints
from .requests import Request, RequestTarget, Response
from .selectors import Selectors, requested
from .status import expired
from .store import Gone, Store
from .tables import Form, form_of, metadata_only

BOOKMARK_S = 60.0
_SHORTEST = timedelta(minutes=30)
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Watching:
    """Serves watches from the store."""

    def __init__(
        self,
        store: Store,
        reading: ReadEndpoints,
        fair_queue: FairQueue,
        bookmark_s: float = BOOKMARK_S,
    ) -> None:
        self.expired = 0
        """Watches that ended because the log no longer contained what they had not read."""
        self._store = store
        self._reading = reading
        self._fair_queue = fair_queue
        self._bookmark_s = bookmark_s

    def stream(self, target: RequestTarget, request: Request) -> Response:
        """The response to a watch. An expired revision is reported within the stream."""
        only = requested(target, request)
        initial = _initial(request)
        since = request.number("resourceVersion") or 0
        listed = initial or since == 0
        try:
            start = self._store.revision if listed else since
            changes = self._store.watch(target.kind.stored_as, target.namespace or None, start)
        except Gone as error:
            return Response(200, _failed(expired(f"too old resource version: {error}")))
        lines = _Lines(self._reading, target, request, only)
        present = ListScan(self._store, target, only, None, None) if listed else None
        seconds = request.number("timeoutSeconds") or int(
            _SHORTEST.total_seconds() * (1 + random.random())
        )
        body = self._lines(lines, changes, present, initial, request, seconds)
        return Response(200, body, warnings=target.version.warnings, long_running=True)

    async def _lines(
        self,
        lines: _Lines,
        changes: Watch,
        present: ListScan | None,
        initial: bool,
        request: Request,
        seconds: int,
    ) -> AsyncIterator[bytes]:
        bookmarks = request.flag("allowWatchBookmarks")
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            for page in present.pages() if present is not None else ():
                async with self._fair_queue.turn(request.user.flow):
                    text = b"".join(lines.event("ADDED", body) for body in page)
                yield text
            if initial and present is not None:
                yield lines.bookmark(present.revision, _INITIAL_END)
            while (left := end - loop.time()) > 0:
                batch = await _batch(changes, min(left, self._bookmark_s))
                if batch is None:
                    if bookmarks:
                        yield lines.bookmark(changes.revision, {})
                elif not batch:
                    return
                else:
                    async with self._fair_queue.turn(request.user.flow):
                        text = b"".join(lines.of(change) for change in batch)
                    if text:
                        yield text
        except Gone as error:
            self.expired += 1
            yield _error(expired(f"too old resource version: {error}"))
        finally:
            changes.close()


async def _batch(changes: Watch, patience_s: float) -> list[Change] | None:
    """The next changes; None after a timeout, empty at the end."""
    try:
        async with asyncio.timeout(patience_s):
            return await changes.batch()
    except TimeoutError:
        return None


class _Lines:
    """Writes the lines of one watch."""

    def __init__(
        self, reading: ReadEndpoints, target: RequestTarget, request: Request, only: Selectors
    ) -> None:
        self._reading = reading
        self._target = target
        self._request = request
        self._only = only
        self._form = form_of(request.headers.get("accept", ""))
        self._plain = self._form is Form.WHOLE and same_form(target.kind, target.version.name)
        self._headed = True

    def of(self, change: Change) -> bytes:
        """The line for one change; b"" if it is not selected.

        A change that removes an object from the selection is DELETED, and one that adds it is
        ADDED.
        """
        if self._only.everything:
            return self.event(change.type, change.body)
        is_in = self._only.matches_body(change.body)
        if change.type != "MODIFIED":
            return self.event(change.type, change.body) if is_in else b""
        was_in = change.replaced is not None and self._only.matches_body(change.replaced)
        if not is_in and not was_in:
            return b""
        type_ = "DELETED" if not is_in else "MODIFIED" if was_in else "ADDED"
        return self.event(type_, change.body)

    def event(self, type_: str, body: bytes) -> bytes:
        if self._plain:
            return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"
        headed, self._headed = self._headed, False
        obj = msgspec.json.decode(body)
        return _line(
            type_,
            self._reading.shown(self._target, obj, self._form, self._request, headed=headed),
        )

    def bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind, api_version = self._target.kind.kind, self._target.api_version
        obj = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._form is not Form.TABLE:
            return _line("BOOKMARK", obj)
        rows = self._reading.rows(self._target, [], self._request, headed=self._headed)
        self._headed = False
        row = {"cells": [None] * len(self._target.version.columns), "object": metadata_only(obj)}
        page = {"metadata": {"resourceVersion": str(revision)}, "rows": [row]}
        return _line("BOOKMARK", rows | page)


def _line(type_: str, obj: Json) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


def _error(refusal: StatusError) -> bytes:
    return _line("ERROR", refusal.status())


async def _failed(refusal: StatusError) -> AsyncIterator[bytes]:
    yield _error(refusal)


def _initial(request: Request) -> bool:
    """Whether to send the current objects first. Raises StatusError for invalid options."""
    match = request.query.get("resourceVersionMatch", "")
    if "sendInitialEvents" not in request.query:
        if match:
            raise _forbidden("resourceVersionMatch", "is for watches with sendInitialEvents only")
        return False
    if match != "NotOlderThan":
        raise _forbidden("resourceVersionMatch", "must be NotOlderThan with sendInitialEvents")
    return request.flag("sendInitialEvents")


def _forbidden(parameter: str, why: str) -> StatusError:
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": parameter}
    message = f"ListOptions.meta.k8s.io is invalid: {parameter}: Forbidden: {why}"
    return StatusError(422, "Invalid", message, {"kind": "ListOptions", "causes": [cause]})
