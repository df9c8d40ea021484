# SPDX-License-Identifier: Apache-2.0
"""The read verbs: get and list, in full or in pages, as objects, tables or metadata."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from kuota.api.base import Json, Key

from .kinds import same_form, served_form
from .requests import Request, Response, Target, answered
from .selectors import Selection, requested
from .status import Refused, bad_request, expired
from .store import Gone, Store, key_of
from .tables import Form, form_of, metadata_only, table

_PAGE = 500


class Page(msgspec.Struct, frozen=True):
    """The start of the next page, and the revision of all pages."""

    revision: int
    namespace: str
    name: str


class Reading:
    """Serves reads from the store."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    def one(self, target: Target, obj: Json, request: Request) -> Response:
        """The response with one stored object."""
        form = form_of(request.headers.get("accept", ""))
        shown = self.shown(target, obj, form, request)
        return answered(shown, warnings=target.version.warnings)

    def shown(
        self, target: Target, obj: Json, form: Form, request: Request, *, headed: bool = True
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
        self, target: Target, objects: list[Json], request: Request, *, headed: bool = True
    ) -> Json:
        """A table of stored objects."""
        kind, version = target.kind, target.version
        served = [served_form(kind, each, version.name) for each in objects]
        # The columns of Events use the stored form, which both Event APIs share.
        shown = objects if kind.storage else served
        include = request.query.get("includeObject", "Metadata")
        pairs = list(zip(shown, served, strict=True))
        return table(version, pairs, self._clock(), include=include, headed=headed)

    def many(self, target: Target, request: Request) -> Response:
        """One page, or everything if there is no limit."""
        only = requested(target, request)
        page = _continued(request)
        limit = request.number("limit") or None
        if limit is not None and limit < 0:
            raise bad_request("limit must be 0 or more")
        self._check_revision(request)
        try:
            found, revision, more = self._found(target, only, page, limit)
        except Gone as error:
            raise expired(f"the continue parameter is too old: {error}") from None
        metadata: Json = {"resourceVersion": str(revision)}
        if more is not None:
            metadata["continue"] = base64.urlsafe_b64encode(msgspec.json.encode(more)).decode()
        return self._listed(target, found, metadata, request)

    def _found(
        self, target: Target, only: Selection, page: Page | None, limit: int | None
    ) -> tuple[list[bytes], int, Page | None]:
        """The selected bodies, their revision, and the start of the next page."""
        revision = self._store.revision if page is None else page.revision
        found: list[bytes] = []
        last = None if page is None else Key(page.namespace, page.name)
        for body, key in self._bodies(target, last, revision, only, limit):
            if limit is not None and len(found) == limit:
                assert last is not None
                return found, revision, Page(revision, last.namespace, last.name)
            found.append(body)
            last = key
        return found, revision, None

    def _bodies(
        self,
        target: Target,
        after: Key | None,
        revision: int,
        only: Selection,
        limit: int | None,
    ) -> Iterator[tuple[bytes, Key]]:
        """The selected objects, read in batches if there is a limit."""
        resource, namespace = target.kind.stored_as, target.namespace or None
        if only.key is not None:
            one = self._store.get(resource, only.key)
            if one is not None and only.matches(one):
                yield msgspec.json.encode(one), only.key
            return
        stride = None if limit is None else max(limit + 1, 0 if only.everything else _PAGE)
        while True:
            listing = self._store.list(resource, namespace, after=after, limit=stride, at=revision)
            for body in listing.bodies:
                if not only.everything or limit is not None:
                    obj = msgspec.json.decode(body)
                    after = key_of(obj)
                    if not only.matches(obj):
                        continue
                    yield body, after
                else:
                    yield body, _NO_KEY
            if stride is None or len(listing.bodies) < stride:
                return

    def _listed(
        self, target: Target, bodies: list[bytes], metadata: Json, request: Request
    ) -> Response:
        kind, version = target.kind, target.version
        form = form_of(request.headers.get("accept", ""))
        api_version, name = kind.api_version(version.name), kind.listing()
        if form is Form.WHOLE and same_form(kind, version.name):
            return _joined(name, api_version, metadata, bodies, target.version.warnings)
        objects = [msgspec.json.decode(body) for body in bodies]
        if form is Form.TABLE:
            shown = self.rows(target, objects, request)
            return answered(shown | {"metadata": metadata}, warnings=target.version.warnings)
        items = [served_form(kind, each, version.name) for each in objects]
        if form is Form.METADATA:
            api_version, name = "meta.k8s.io/v1", "PartialObjectMetadataList"
            items = [metadata_only(each) for each in items]
        answer = {"kind": name, "apiVersion": api_version, "metadata": metadata, "items": items}
        return answered(answer, warnings=target.version.warnings)

    def _check_revision(self, request: Request) -> None:
        """Reject a future revision, because this server does not wait for it."""
        wanted = request.number("resourceVersion")
        if wanted is not None and wanted > self._store.revision:
            message = f"Too large resource version: {wanted}, current: {self._store.revision}"
            raise Refused(504, "Timeout", message, {"retryAfterSeconds": 1})


_NO_KEY = Key("", "")


def _joined(
    kind: str, api_version: str, metadata: Json, bodies: list[bytes], warnings: tuple[str, ...]
) -> Response:
    """A list whose items are sent as stored."""
    head = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return Response(200, head[:-1] + b',"items":[' + b",".join(bodies) + b"]}", warnings=warnings)


def _continued(request: Request) -> Page | None:
    token = request.query.get("continue", "")
    if not token:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=Page)
    except (ValueError, msgspec.DecodeError, msgspec.ValidationError):
        raise bad_request("the continue parameter is not one of this server's") from None
