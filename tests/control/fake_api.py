# SPDX-License-Identifier: Apache-2.0
"""An API server in memory that keeps the contract controllers rely on.

Versions and conflicts, generations, the status subresource, watches, finalizers, owner references,
Kueue's defaults and rules, and what a Job may change when. It serves a `kuota.kube` client.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.defaults import defaulted
from kuota.api.kueue import KINDS
from kuota.api.merge_patch import merged
from kuota.api.rules import faults
from kuota.kube.client import Client, Listing
from kuota.kube.clock import Clock
from kuota.kube.decoding import WatchEvent
from kuota.kube.errors import AlreadyExists, Conflict, Gone, Invalid, NotFound
from kuota.kube.requests import PatchBody, Selection
from kuota.kube.resources import ALL, Resource, key_of

BY_KIND = {each.kind: each for each in ALL}
_MUTABLE = ("nodeSelector", "tolerations", "schedulingGates")


class FakeApi(Client):
    """Objects by resource and key. `writes` counts, and `conflicts` what was made from an old
    version; `refuse` makes chosen writes fail, `barred` all on the status of objects so named, and
    `latency_s` is how long each takes. Watches deliver changes `lag_s` after they happened, or
    after what `lags` has for the resource. If `compacted`, the next watch starts from a revision
    that is no longer there.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.writes = 0
        self.conflicts: Counter[Resource] = Counter()
        self.latency_s = 0.0
        self.lag_s = 0.0
        self.lags: dict[Resource, float] = {}
        self.compacted = False
        self.refuse: dict[tuple[str, str], list[Exception]] = {}
        self.barred: dict[str, Exception] = {}
        self._objects: dict[tuple[Resource, Key], Json] = {}
        self._revision = 100
        self._log: list[tuple[int, Resource, str, Json]] = []
        self._news = asyncio.Event()
        self.page_s = 0.0
        """How long the next page of a list takes. If it takes time, a page has one object."""

    # Short ways for stories

    def find(self, resource: Resource, name: str, namespace: str = "") -> Json | None:
        space = (namespace or "team") if resource.namespaced else ""
        found = self._objects.get((resource, Key(space, name)))
        return _copy(found) if found is not None else None

    def all(self, resource: Resource) -> list[Json]:
        return [_copy(obj) for (r, _), obj in self._objects.items() if r == resource]

    def total(self, resource: Resource, measure: Callable[[Json], int]) -> int:
        """A sum over all objects of a kind, which `measure` may only read."""
        return sum(measure(obj) for (r, _), obj in self._objects.items() if r == resource)

    async def apply(self, *objects: Json) -> None:
        """Create each object, or change it to be so."""
        for obj in objects:
            resource = BY_KIND[obj["kind"]]
            if (resource, key_of(obj)) in self._objects:
                await self.patch(resource, key_of(obj), obj)
            else:
                await self.create(resource, obj)

    def store_unvalidated(self, resource: Resource, key: Key, fields: Json) -> None:
        """Replace fields of an object by ones that no rule would let in."""
        self._store(resource, key, self._existing(resource, key) | fields, "MODIFIED")

    def versions(self, resource: Resource, name: str) -> int:
        """How often an object was written."""
        return sum(r == resource and o["metadata"]["name"] == name for _, r, _, o in self._log)

    # The client: the verbs that are used, and of their options those that are

    async def get(self, resource: Resource, key: Key) -> Json:
        return _copy(self._existing(resource, key))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        **_: Any,
    ) -> Listing:
        found = [o for o in self.all(resource) if not namespace or key_of(o).namespace == namespace]
        selected = [each for each in found if _selected(each, label_selector)]
        return Listing(selected, str(self._revision))

    async def pages(
        self, resource: Resource, which: Selection, *, limit: int | None = None
    ) -> AsyncGenerator[Listing, None]:
        found = await self.list(resource, which.namespace, label_selector=which.labels)
        yield found if not self.page_s else Listing([], found.revision)
        for each in found.items if self.page_s else ():
            yield Listing([each], found.revision)
            await asyncio.sleep(self.page_s)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        since: str,
        label_selector: str = "",
        initial: bool = False,
        **_: Any,
    ) -> AsyncGenerator[WatchEvent, None]:
        if initial:
            raise Invalid(422, "Invalid", "sendInitialEvents is forbidden")
        sent = int(since)
        if self.compacted:
            self.compacted = False
            raise Gone(410, "Expired", "too old resource version")
        while True:
            changes = self._news
            if lag_s := self.lags.get(resource, self.lag_s):
                await asyncio.sleep(lag_s)
            start = bisect_right(self._log, sent, key=lambda each: each[0])
            for revision, about, type_, obj in self._log[start:]:
                sent = revision
                if about == resource and _selected(obj, label_selector):
                    yield WatchEvent(type_, _copy(obj))
            if changes is self._news:
                await changes.wait()

    async def create(self, resource: Resource, obj: Json, **_: Any) -> Json:
        await asyncio.sleep(self.latency_s)
        self._may_fail("create", resource)
        key = key_of(obj)
        if (resource, key) in self._objects:
            raise AlreadyExists(409, "AlreadyExists", f"{resource} {key} exists already")
        made = defaulted(obj)
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        meta = {k: v for k, v in made["metadata"].items() if k != "resourceVersion"}
        meta |= {"uid": f"uid-{self._revision}", "creationTimestamp": self._stamp()}
        made = made | named | {"metadata": meta | {"generation": 1}}
        if "status" in made and resource.kind in (*KINDS, "Job"):
            made = {name: value for name, value in made.items() if name != "status"}
        self._check(made, None)
        return self._store(resource, key, made, "ADDED")

    async def patch(
        self,
        resource: Resource,
        key: Key,
        body: PatchBody,
        *,
        subresource: str = "",
        **_: Any,
    ) -> Json:
        await asyncio.sleep(self.latency_s)
        self._may_fail(subresource or "patch", resource)
        if subresource == "status" and key.name in self.barred:
            raise self.barred[key.name]
        assert isinstance(body, dict)
        before = self._existing(resource, key)
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != before["metadata"]["resourceVersion"]:
            self.conflicts[resource] += 1
            raise Conflict(409, "Conflict", f"{resource} {key} has changed")
        after = merged(before, _copy(body))
        if subresource == "status":
            after = before | {"status": after.get("status") or {}}
        elif resource.kind in (*KINDS, "Job"):
            after = after | {"status": before["status"]} if "status" in before else after
        meta = after["metadata"] | {"generation": before["metadata"]["generation"]}
        meta["resourceVersion"] = before["metadata"]["resourceVersion"]
        if before.get("spec") != after.get("spec"):
            meta["generation"] += 1
        after = after | {"metadata": meta}
        if after == before:
            return _copy(before)
        self._check(after, before)
        return self._changed(resource, key, after)

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", **_: Any) -> Json:
        await asyncio.sleep(self.latency_s)
        before = self._existing(resource, key)
        if uid and before["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f"{resource} {key} is another one now")
        if before["metadata"].get("deletionTimestamp"):
            return before
        meta = before["metadata"] | {"deletionTimestamp": self._stamp()}
        return self._changed(resource, key, before | {"metadata": meta})

    # Inside

    def _existing(self, resource: Resource, key: Key) -> Json:
        found = self._objects.get((resource, key))
        if found is None:
            raise NotFound(404, "NotFound", f"{resource} {key} does not exist")
        return found

    def _may_fail(self, verb: str, resource: Resource) -> None:
        planned = self.refuse.get((verb, resource.kind))
        if planned:
            raise planned.pop(0)

    def _changed(self, resource: Resource, key: Key, after: Json) -> Json:
        meta = after["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            return self._remove(resource, key, after)
        return self._store(resource, key, after, "MODIFIED")

    def _store(self, resource: Resource, key: Key, obj: Json, type_: str) -> Json:
        obj = self._next(resource, obj, type_)
        self._objects[resource, key] = obj
        return _copy(obj)

    def _remove(self, resource: Resource, key: Key, obj: Json) -> Json:
        del self._objects[resource, key]
        obj = self._next(resource, obj, "DELETED")
        self._collect(obj["metadata"]["uid"])
        return _copy(obj)

    def _next(self, resource: Resource, obj: Json, type_: str) -> Json:
        self._revision += 1
        if resource.kind != "Event":
            self.writes += 1
        obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self._revision)}}
        self._log.append((self._revision, resource, type_, _copy(obj)))
        changes, self._news = self._news, asyncio.Event()
        changes.set()
        return obj

    def _collect(self, owner: str) -> None:
        """Delete in the background what the object owned, unless another owner is left."""
        left = {obj["metadata"]["uid"] for obj in self._objects.values()}
        for (resource, key), obj in list(self._objects.items()):
            owners = {each.get("uid") for each in obj["metadata"].get("ownerReferences") or ()}
            gone = owner in owners and not owners & left
            if gone and not obj["metadata"].get("deletionTimestamp"):
                meta = obj["metadata"] | {"deletionTimestamp": self._stamp()}
                self._changed(resource, key, obj | {"metadata": meta})

    def _stamp(self) -> str:
        return self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")

    def _check(self, obj: Json, old: Json | None) -> None:
        found = [str(each) for each in faults(obj, old)] if obj["kind"] in KINDS else []
        if old is not None and found:
            # Faults that are stored already are tolerated (CRD validation ratcheting).
            before = {str(each) for each in faults(old)}
            found = [each for each in found if each not in before]
        if obj["kind"] == "Job" and old is not None:
            found += _job_faults(obj, old)
        if found:
            raise Invalid(422, "Invalid", "; ".join(found))


def _selected(obj: Json, selector: str) -> bool:
    """Whether labels match a selector `name=value`, or `name` for any value, or "" for all."""
    name, equals, value = selector.partition("=")
    labels = obj["metadata"].get("labels") or {}
    return not selector or (labels.get(name) == value if equals else name in labels)


def _copy(obj: Json) -> Json:
    copied: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def _job_faults(job: Json, old: Json) -> list[str]:
    """A template may change only where pods land, and only while the job has not started.

    As in Kubernetes 1.36, a job with active pods counts as started.
    """
    before, after = _copy(old["spec"]["template"]), _copy(job["spec"]["template"])
    if before == after:
        return []
    status = old.get("status") or {}
    started = status.get("startTime") or status.get("active")
    if started or old["spec"].get("suspend") is not True:
        return ["spec.template: field is immutable"]
    for template in (before, after):
        template["metadata"] = None
        for field in _MUTABLE:
            template["spec"].pop(field, None)
    return [] if before == after else ["spec.template: field is immutable"]
