# SPDX-License-Identifier: Apache-2.0
"""A minimal API server that implements revisions, paging, watches, 409 and 410.

It can fail on demand: be down, truncate watches, drop its history, or delay events.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from kube.scripted import line, ok, refused, without_initial_events
from kuota.api.base import Json
from kuota.kube.errors import Unreachable, response_error
from kuota.kube.requests import HttpRequest, HttpResponse


class TinyServer:
    """Objects by path. Watches are cut by `cut`, history is forgotten by `compact`."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[str, Json] = {}
        self.log: list[tuple[int, str, str, Json]] = []
        self.compacted = 0
        self.down = False
        self.hang = False
        self.mute = False
        self.requests: list[HttpRequest] = []
        self.page = 2
        self.initial_events = True
        self.sends_at_most: int | None = None
        self.lags = False
        self._epoch = 0
        self._uid = 0
        self._pages: dict[str, list[Json]] = {}
        self._news = asyncio.Event()

    def put(self, path: str, **content: object) -> Json:
        """Create or change the object at the path, as some other client would."""
        before = self.objects.get(path)
        *_, namespace, _, name = path.split("/")
        if before is None:
            self._uid += 1
        uid = before["metadata"]["uid"] if before else f"u{self._uid}"
        metadata: Json = {"name": name, "namespace": namespace, "uid": uid}
        metadata["managedFields"] = [{"manager": "somebody"}]
        return self._store(path, {"metadata": metadata, **content})

    def remove(self, path: str) -> None:
        gone = self.objects.pop(path)
        self.revision += 1
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", path, gone)

    @property
    def lists(self) -> int:
        """How many lists were begun, as pages or as the beginning of a watch."""
        first = [each for each in self.requests if "continue" not in each.query]
        wanted = ("limit", "sendInitialEvents")
        return sum(any(word in each.query for word in wanted) for each in first)

    def bookmark(self) -> None:
        """Let the revision grow by something that no watcher sees, and tell them."""
        self.revision += 1
        self._tell("BOOKMARK", "", {"metadata": {"resourceVersion": str(self.revision)}})

    def compact(self) -> None:
        self.compacted = self.revision

    def cut(self) -> None:
        """Break every watch that is open."""
        self._epoch += 1
        self._ring()

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if self.hang:
            await asyncio.Event().wait()
        if self.down:
            raise Unreachable("connection refused", sent=False)
        body: Json = msgspec.json.decode(request.body or b"{}")
        if request.method == "GET":
            return self._read(request)
        if request.method == "POST":
            return self._create(request.path, body)
        found = self.objects.get(request.path)
        if found is None:
            return refused(404, "NotFound")
        if request.method == "PUT":
            return self._replace(request.path, found, body)
        if request.method == "PATCH":
            return ok(self._store(request.path, {**found, **body}))
        self.remove(request.path)
        return ok(found)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        self.requests.append(request)
        if self.down:
            raise Unreachable("connection refused", sent=False)
        epoch = self._epoch
        if "sendInitialEvents" in request.query:
            if not self.initial_events:
                raise without_initial_events()
            if self.lags and not request.query.get("resourceVersion"):
                raise response_error(504, {}, refused(504, "Timeout").body)
            seen = self.revision
            found = [
                each for each in sorted(self.objects.items()) if each[0].startswith(request.path)
            ]
            for _, obj in found[: self.sends_at_most]:
                yield line("ADDED", copy.deepcopy(obj))
            if self.sends_at_most is not None:
                return
            annotations = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(seen), "annotations": annotations}
            yield line("BOOKMARK", {"metadata": metadata})
        else:
            seen = int(request.query["resourceVersion"])
        if seen < self.compacted:
            yield line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
            return
        while True:
            news = self._news
            for revision, kind, path, obj in list(self.log):
                if revision > seen and path.startswith(request.path if path else ""):
                    seen = revision
                    yield line(kind, obj)
            if epoch != self._epoch:
                raise Unreachable("the line broke")
            await news.wait()

    async def close(self) -> None:
        return None

    def _read(self, request: HttpRequest) -> HttpResponse:
        if request.path in self.objects:
            return ok(self.objects[request.path])
        inside = request.path.partition("/namespaces/")[2]
        return refused(404, "NotFound") if inside.count("/") == 2 else self._list(request)

    def _list(self, request: HttpRequest) -> HttpResponse:
        begin, _, at = request.query.get("continue", "0@").partition("@")
        if at and int(at) < self.compacted:
            return refused(410, "Expired")
        found = self._pages.get(at) or [
            each for path, each in sorted(self.objects.items()) if path.startswith(request.path)
        ]
        end = int(begin) + self.page if "limit" in request.query else len(found)
        metadata = {"resourceVersion": at or str(self.revision)}
        if end < len(found):
            # All pages of a list show the state of its first one.
            self._pages[metadata["resourceVersion"]] = copy.deepcopy(found)
            metadata["continue"] = f"{end}@{metadata['resourceVersion']}"
        return ok({"metadata": metadata, "items": found[int(begin) : end] or None})

    def _create(self, collection: str, obj: Json) -> HttpResponse:
        path = f"{collection}/{obj['metadata']['name']}"
        if path in self.objects:
            return refused(409, "AlreadyExists")
        self._uid += 1
        obj["metadata"]["uid"] = f"u{self._uid}"
        return ok(self._store(path, obj), 201)

    def _replace(self, path: str, found: Json, obj: Json) -> HttpResponse:
        if obj["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return refused(409, "Conflict")
        return ok(self._store(path, obj))

    def _store(self, path: str, obj: Json) -> Json:
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.revision += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[path] = stored
        self._tell(kind, path, stored)
        return stored

    def _tell(self, kind: str, path: str, obj: Json) -> None:
        self.log.append((self.revision, kind, path, copy.deepcopy(obj)))
        self._ring()

    def _ring(self) -> None:
        if self.mute:
            return
        news, self._news = self._news, asyncio.Event()
        news.set()


class SlowServer(TinyServer):
    """Answers travel for a moment, in which others write."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = await super().send(request)
        await asyncio.sleep(0)
        return answer

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().stream(request)) as lines:
            async for each in lines:
                await asyncio.sleep(0)
                yield each
