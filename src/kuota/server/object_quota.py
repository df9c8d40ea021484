# SPDX-License-Identifier: Apache-2.0
"""Limits the objects of a namespace: by its ResourceQuotas, and by a limit on all of its objects.

ResourceQuotas limit object counts: `count/RESOURCE.GROUP`, and the older names such as `pods` and
`configmaps`. Amounts of compute resources and scopes are not enforced; Kueue's quotas limit them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, parse

from .admission import Review
from .changes import Change, Watch
from .columns import dig, mapped
from .kinds import Kind
from .requests import SYSTEM_USER
from .status import forbidden
from .store import Gone, NotFound, Store

QUOTAS = "resourcequotas"
PODS = "pods"
_COUNT = "count/"
_SHORT = ("configmaps", "persistentvolumeclaims", PODS, "replicationcontrollers", QUOTAS)
_SHORT_NAMES = frozenset({*_SHORT, "secrets", "services"})
_CREATED_FOR_USERS = frozenset({PODS, "jobs.batch"})
"""One small object of a user can ask for any number of these."""
_PAUSE_S = 0.2
_NANO = 10**9


class NamespaceLimits(msgspec.Struct, frozen=True):
    """Limits of what users may store in one namespace.

    Controllers are exempt, except for the Pods and Jobs that they create for objects of users.
    """

    objects: int = 100_000
    bytes: int = 2 << 30


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    status: _Status | None = None


_POD = msgspec.json.Decoder(_Pod)


class ObjectQuota:
    """Enforces the limits when an object is created, and publishes the usage of ResourceQuotas."""

    def __init__(self, store: Store, limits: NamespaceLimits | None = None) -> None:
        self._store = store
        self._limits = limits or NamespaceLimits()

    def hook(self, review: Review) -> Json:
        """Reject an object that would exceed a limit. Raises StatusError."""
        namespace = str(review.object["metadata"].get("namespace") or "")
        if review.old is None and not review.subresource and namespace:
            if review.user.name != SYSTEM_USER or review.kind.resource in _CREATED_FOR_USERS:
                self._check_namespace(review, namespace)
            for quota in self._quotas(namespace):
                self._check(review, quota, namespace)
        return review.object

    def advice(self, review: Review) -> Sequence[str]:
        """Warn about the parts of a ResourceQuota that are not enforced."""
        if review.kind.resource != QUOTAS or review.subresource:
            return ()
        names = [name for name in mapped(dig(review.object, "spec", "hard")) if not _of(name)]
        found = [f"spec.hard: {name} is not enforced, only object counts are" for name in names]
        if _scoped(review.object):
            found.append("spec.scopes: a ResourceQuota with scopes is not enforced")
        return found

    async def publish(self) -> None:
        """Keep the status of ResourceQuotas up to date until the store is closed."""
        while True:
            changes = self._store.watch(None)
            for each in self._store.list(QUOTAS).items:
                self._publish(str(each["metadata"]["namespace"]))
            try:
                await self._follow(changes)
                return
            except Gone:
                changes.close()  # It fell behind: begin again.

    async def _follow(self, changes: Watch) -> None:
        while found := await changes.batch():
            dirty = {change.key.namespace for change in found if self._concerns(change)}
            if not dirty:
                continue
            # Many objects may change at once.
            await asyncio.sleep(_PAUSE_S)
            dirty |= {each.key.namespace for each in changes.pending() if self._concerns(each)}
            for namespace in dirty:
                self._publish(namespace)

    def _concerns(self, change: Change) -> bool:
        namespace = change.key.namespace
        return bool(namespace and self._store.sizes.objects(QUOTAS, namespace))

    def _publish(self, namespace: str) -> None:
        for quota in self._quotas(namespace):
            hard = mapped(dig(quota, "spec", "hard"))
            used = {name: str(self._used(name, namespace)) for name in hard if _of(name)}
            status = {"hard": hard, "used": used}
            if quota.get("status") != status:
                try:
                    self._store.update(QUOTAS, quota | {"status": status}, None)
                except NotFound:
                    continue

    def _quotas(self, namespace: str) -> Sequence[Json]:
        if not self._store.sizes.objects(QUOTAS, namespace):
            return ()
        return [each for each in self._store.list(QUOTAS, namespace).items if not _scoped(each)]

    def _check_namespace(self, review: Review, namespace: str) -> None:
        objects, size = self._store.sizes.namespace(namespace)
        full = None
        if objects >= self._limits.objects:
            full = f"{objects} objects, and the limit is {self._limits.objects}"
        elif size >= self._limits.bytes:
            full = f"{size >> 20} MiB of objects, and the limit is {self._limits.bytes >> 20} MiB"
        if full is not None:
            raise _refusal(
                review,
                f"namespace {namespace} contains {full}. Delete objects, or ask an admin to raise "
                "the limit of objects per namespace",
            )

    def _check(self, review: Review, quota: Json, namespace: str) -> None:
        exceeded = []
        for name, amount in _limits_for(review.kind, mapped(dig(quota, "spec", "hard"))):
            used = self._used(name, namespace)
            if used + 1 > amount:
                exceeded.append((name, used, amount))
        if exceeded:
            requested = ",".join(f"{name}=1" for name, _, _ in exceeded)
            used_now = ",".join(f"{name}={used}" for name, used, _ in exceeded)
            limited = ",".join(f"{name}={amount}" for name, _, amount in exceeded)
            raise _refusal(
                review,
                f"exceeded quota: {dig(quota, 'metadata', 'name')}, requested: {requested}, "
                f"used: {used_now}, limited: {limited}",
            )

    def _used(self, name: str, namespace: str) -> int:
        if name != PODS:
            return self._store.sizes.objects(_stored(_of(name)), namespace)
        bodies = self._store.list(PODS, namespace).bodies
        ended = ("Succeeded", "Failed")
        return sum((_POD.decode(body).status or _Status()).phase not in ended for body in bodies)


def _refusal(review: Review, why: str) -> Exception:
    return forbidden(review.kind, str(review.object["metadata"].get("name", "")), why)


def _of(name: str) -> str:
    """The resource whose objects an entry of `hard` counts; "" if it counts something else."""
    if name.startswith(_COUNT):
        return name.removeprefix(_COUNT)
    return name if name in _SHORT_NAMES else ""


def _stored(resource: str) -> str:
    """The resource under which the objects are stored: both Event APIs share one."""
    return "events" if resource == "events.events.k8s.io" else resource


def _limits_for(kind: Kind, hard: Json) -> Iterator[tuple[str, int]]:
    """The entries of `hard` that limit objects of the kind."""
    for name, amount in hard.items():
        if _stored(_of(name)) == kind.stored_as:
            try:
                yield name, parse(amount) // _NANO
            except (QuantityError, TypeError, ValueError):
                continue


def _scoped(quota: Json) -> bool:
    return bool(dig(quota, "spec", "scopes") or dig(quota, "spec", "scopeSelector"))
