# SPDX-License-Identifier: Apache-2.0
"""The read verbs: get and list, in full or in pages, as objects, tables or metadata."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime

import msgspec

from kuota.api.base import Json, Key
from kuota.api.status import StatusError, bad_request

from .fairness import FairQueue, RequestTurn
from .kinds import same_form, served_form
from .requests import Interrupted, Request, RequestTarget, Response, answered
from .selectors import Selectors, requested
from .status import expired
from .store import Gone, Store
from .tables import Form, form_of, metadata_only, table

_PAGE = 1000
_PAGE_BYTES = 1 << 20
_STREAMED_BYTES = 4 << 20
"""The size from which a list is sent while it is read."""


class ContinueToken(msgspec.Struct, frozen=True):
    """The start of the next page, and the revision of all pages."""

    revision: int
    namespace: str
    name: str


class ReadEndpoints:
    """Serves reads from the store."""

    def __init__(self, store: Store, clock: Callable[[], datetime], fair_queue: FairQueue) -> None:
        self._store = store
        self._clock = clock
        self._fair_queue = fair_queue

    def one(self, target: RequestTarget, obj: Json, request: Request) -> Response:
        """The response with one stored object."""
        form = form_of(request.headers.get("accept", ""))
        shown = self.shown(target, obj, form, request)
        return answered(shown, warnings=target.version.warnings)

    def shown(
        self, target: RequestTarget, obj: Json, form: Form, request: Request, *, headed: bool = True
    ) -> Json:
        """A stored object in the requested version and format.

        A table contains column definitions if it is `headed`.
        """
        served = served_form(target.kind, obj, target.version.name)
        if form is Form.TABLE:
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            rows = self.rows(target, [obj], request, headed=headed)
            return rows | {"metadata": metadata}
        return metadata_only(served) if form is Form.METADATA else served

    def rows(
        self, target: RequestTarget, objects: list[Json], request: Request, *, headed: bool = True
    ) -> Json:
        """A table of stored objects."""
        kind, version = target.kind, target.version
        served = [served_form(kind, each, version.name) for each in objects]
        # The columns of Events use the stored form, which both Event APIs share.
        shown = objects if kind.storage else served
        include = request.query.get("includeObject", "Metadata")
        pairs = list(zip(shown, served, strict=True))
        return table(version, pairs, self._clock(), include=include, headed=headed)

    async def many(self, target: RequestTarget, request: Request, turn: RequestTurn) -> Response:
        """One page, or everything if there is no limit. A large list is streamed."""
        page = _continued(request)
        limit = request.number("limit") or None
        if limit is not None and limit < 0:
            raise bad_request("limit must be 0 or more")
        self._check_revision(request)
        scan = ListScan(self._store, target, requested(target, request), page, limit)
        shown = _ListForm(self, target, request)
        pieces: list[bytes] = []
        size = 0
        try:
            for bodies in scan.pages():
                pieces.append(shown.items(bodies))
                size += sum(map(len, bodies))
                if size >= _STREAMED_BYTES:
                    break
                await turn.pause()
        except Gone as error:
            raise expired(f"the continue parameter is too old: {error}") from None
        warnings = target.version.warnings
        if scan.complete:
            return Response(200, shown.whole(pieces, scan.metadata()), warnings=warnings)
        body = self._streamed(scan, shown, pieces, request.user.flow)
        return Response(200, body, warnings=warnings)

    async def _streamed(
        self, scan: ListScan, shown: _ListForm, pieces: list[bytes], user: str
    ) -> AsyncIterator[bytes]:
        """A list that begins with these pieces, and continues page by page.

        Every page is read and converted in a turn of the user. Raises Interrupted if the log was
        compacted in the meantime.
        """
        head, tail = shown.frame(scan)
        begun = _joined(pieces)
        pieces.clear()
        yield head + begun
        separator = b"," if begun else b""
        pages = scan.pages()
        try:
            while not scan.complete:
                async with self._fair_queue.turn(user):
                    piece = shown.items(next(pages))
                if piece:
                    yield separator + piece
                    separator = b","
        except Gone as error:
            raise Interrupted(f"the list cannot be completed: {error}") from error
        yield tail()

    def _check_revision(self, request: Request) -> None:
        """Reject a future revision, because this server does not wait for it."""
        wanted = request.number("resourceVersion")
        if wanted is not None and wanted > self._store.revision:
            message = f"Too large resource version: {wanted}, current: {self._store.revision}"
            raise StatusError(504, "Timeout", message, {"retryAfterSeconds": 1})


class ListScan:
    """The selected objects of one list, in pages that are limited by number and bytes.

    A limit ends the list, and `next` is then the start of the next one, if there is more.
    """

    def __init__(
        self,
        store: Store,
        target: RequestTarget,
        only: Selectors,
        start: ContinueToken | None,
        limit: int | None,
    ) -> None:
        self.revision = store.revision if start is None else start.revision
        self.complete = False
        self.next: ContinueToken | None = None
        self._store = store
        self._target = target
        self._only = only
        self._after = None if start is None else Key(start.namespace, start.name)
        self._last: Key | None = None
        self._left = limit

    def metadata(self) -> Json:
        """The metadata of the list. It is known when the list is complete."""
        metadata: Json = {"resourceVersion": str(self.revision)}
        if self.next is not None:
            token = base64.urlsafe_b64encode(msgspec.json.encode(self.next)).decode()
            metadata["continue"] = token
        return metadata

    def pages(self) -> Iterator[list[bytes]]:
        """The remaining pages; may be called again. Raises Gone."""
        resource, namespace = self._target.kind.stored_as, self._target.namespace or None
        if self._only.key is not None:
            self.complete = True
            one = self._store.get(resource, self._only.key)
            if one is not None and self._only.matches(one):
                yield [msgspec.json.encode(one)]
            return
        while not self.complete:
            few = _PAGE if self._left is None or not self._only.everything else self._left + 1
            listing = self._store.list(
                resource,
                namespace,
                after=self._after,
                limit=min(few, _PAGE),
                most_bytes=_PAGE_BYTES,
                at=self.revision,
            )
            self._after = listing.last
            found = [body for body in listing.bodies if self._only.matches_body(body)]
            self.complete = not listing.more
            yield self._counted(found)

    def _counted(self, found: list[bytes]) -> list[bytes]:
        """The objects within the limit. An object beyond it completes the list."""
        if self._left is None:
            return found
        within, beyond = found[: self._left], found[self._left :]
        self._left -= len(within)
        if within:
            self._last = _key_in(within[-1])
        if beyond:
            assert self._last is not None
            self.complete = True
            self.next = ContinueToken(self.revision, self._last.namespace, self._last.name)
        return within


class _ListForm:
    """The form in which a request wants a list: objects, metadata, or a table."""

    def __init__(self, reading: ReadEndpoints, target: RequestTarget, request: Request) -> None:
        self._reading = reading
        self._target = target
        self._request = request
        self._form = form_of(request.headers.get("accept", ""))
        plain = self._form is Form.WHOLE and same_form(target.kind, target.version.name)
        self._plain = plain
        self._field = b'"rows":[' if self._form is Form.TABLE else b'"items":['

    def whole(self, pieces: list[bytes], metadata: Json) -> bytes:
        """The complete list of these items, see `items`."""
        head = msgspec.json.encode(self._head() | {"metadata": metadata})
        return head[:-1] + b"," + self._field + _joined(pieces) + b"]}"

    def frame(self, scan: ListScan) -> tuple[bytes, Callable[[], bytes]]:
        """The text before the items, and a function for that after them."""
        head = msgspec.json.encode(self._head())[:-1] + b"," + self._field
        return head, lambda: b'],"metadata":' + msgspec.json.encode(scan.metadata()) + b"}"

    def items(self, bodies: list[bytes]) -> bytes:
        """The items, separated by commas."""
        if self._plain:
            return b",".join(bodies)
        objects = [msgspec.json.decode(body) for body in bodies]
        if self._form is Form.TABLE:
            table = self._reading.rows(self._target, objects, self._request)
            return msgspec.json.encode(table["rows"])[1:-1]
        kind, version = self._target.kind, self._target.version.name
        items = [served_form(kind, each, version) for each in objects]
        if self._form is Form.METADATA:
            items = [metadata_only(each) for each in items]
        return msgspec.json.encode(items)[1:-1]

    def _head(self) -> Json:
        if self._form is Form.TABLE:
            table = self._reading.rows(self._target, [], self._request)
            return {key: value for key, value in table.items() if key not in ("rows", "metadata")}
        if self._form is Form.METADATA:
            return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        kind, version = self._target.kind, self._target.version.name
        return {"kind": kind.listing(), "apiVersion": kind.api_version(version)}


def _joined(pieces: list[bytes]) -> bytes:
    return b",".join(filter(None, pieces))


class _Named(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _Keyed(msgspec.Struct, gc=False):
    metadata: _Named


_KEYED = msgspec.json.Decoder(_Keyed)


def _key_in(body: bytes) -> Key:
    metadata = _KEYED.decode(body).metadata
    return Key(metadata.namespace, metadata.name)


def _continued(request: Request) -> ContinueToken | None:
    token = request.query.get("continue", "")
    if not token:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=ContinueToken)
    except (ValueError, msgspec.DecodeError, msgspec.ValidationError):
        raise bad_request("the continue parameter is not one of this server's") from None
