# SPDX-License-Identifier: Apache-2.0
"""The write verbs: create, replace, patch, delete.

Nothing here awaits, so data that was read is still current when it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.merge_patch import merged
from kuota.api.status import StatusError, bad_request, unsupported_media
from kuota.api.structure import Cleaning

from . import deletion, wire
from .admission import AdmissionChain, Write, identify
from .bodies import check_size, most_values, read_json, read_yaml
from .columns import dig
from .deletion import ANYWHERE, DeleteOptions, PodDeletion
from .kinds import Kind, Kinds, served_form
from .ownership import applied_to, owned
from .patch import json_patch
from .requests import RequestTarget
from .status import already_exists, conflict, forbidden, not_found
from .store import AlreadyExists, Conflict, NotFound, Store
from .strategic import PatchError, strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_PROTECTED = ("default", "kube-system")


class WriteResult(msgspec.Struct, frozen=True):
    """The result of a write: the stored object, warnings, and whether it is new or removed."""

    object: Json
    warnings: tuple[str, ...] = ()
    created: bool = False
    gone: bool = False


Written = Callable[[Kind, Json, bool], None]
"""Called for every object that was stored, or (True) removed."""


class Rest:
    """Objects by target. `written` is called for every change that is not a dry run."""

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        admission: AdmissionChain,
        written: Written,
        pods: PodDeletion = ANYWHERE,
    ) -> None:
        self._store = store
        self.pods = pods
        self._kinds = kinds
        self._admission = admission
        self._written = written

    def read(self, target: RequestTarget) -> Json:
        """The stored object. Raises StatusError if it does not exist."""
        found = self._store.get(target.kind.stored_as, Key(target.namespace, target.name))
        if found is None:
            raise not_found(target.kind, target.name)
        return found

    def create(self, target: RequestTarget, written: Json, write: Write) -> WriteResult:
        if target.kind.namespaced and not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        obj, warnings = self._admission.created(
            target, written, write, lambda new: owned(target, None, new, write)
        )
        self._check_namespace(target.kind, target.namespace, obj["metadata"]["name"])
        return self._create(target, obj, warnings, write)

    def _create(
        self, target: RequestTarget, obj: Json, warnings: list[str], write: Write
    ) -> WriteResult:
        name, resource = obj["metadata"]["name"], target.kind.stored_as
        check_size(obj, write.user, target.kind)
        try:
            if write.dry_run:
                if self._store.get(resource, Key(target.namespace, name)) is not None:
                    raise already_exists(target.kind, name)
                return WriteResult(obj, tuple(warnings), created=True)
            stored = self._store.create(resource, obj)
        except AlreadyExists:
            raise already_exists(target.kind, name) from None
        self._written(target.kind, stored, False)
        return WriteResult(stored, tuple(warnings), created=True)

    def replace(
        self, target: RequestTarget, written: Json, write: Write, subresource: str = ""
    ) -> WriteResult:
        """Replace the existing object, possibly through a subresource."""
        old = self.read(target)
        new, warnings = self._admission.updated(target, written, old, write)
        new = owned(target, old, new, write, subresource)
        return self._update(target, old, new, warnings, write)

    def patch(
        self, target: RequestTarget, media: str, body: bytes, write: Write, *, force: bool
    ) -> WriteResult:
        if media == APPLY_PATCH:
            return self._apply(target, body, write, force)
        old = self.read(target)
        patched = self._patched(target, old, media, body, most_values(write.user, target.kind))
        new, warnings = self._admission.updated(target, patched, old, write)
        return self._update(target, old, owned(target, old, new, write), warnings, write)

    def _patched(
        self, target: RequestTarget, old: Json, media: str, body: bytes, most: int
    ) -> Json:
        """The patched object in the version of the request."""
        current = served_form(target.kind, old, target.version.name)
        patched = patched_json(current, target.kind, media, body, most)
        if not isinstance(patched, dict):
            raise bad_request("the patch leaves no object")
        return patched

    def _apply(self, target: RequestTarget, body: bytes, write: Write, force: bool) -> WriteResult:
        config = read_yaml(body, most_values(write.user, target.kind))
        if not isinstance(config, dict):
            raise bad_request("the body must be one object")
        if not write.manager:
            raise bad_request("fieldManager is required for apply patch")
        identify(target, config)
        config = Cleaning(spelling_only=True).clean(config, target.version.structure)
        old = self._store.get(target.kind.stored_as, Key(target.namespace, target.name))
        if old is None and target.subresource:
            raise not_found(target.kind, target.name)
        merged = applied_to(target, old, config, write, force)
        if old is None:
            obj, warnings = self._admission.created(target, merged, write)
            self._check_namespace(target.kind, target.namespace, target.name)
            return self._create(target, obj, warnings, write)
        new, warnings = self._admission.updated(target, merged, old, write)
        return self._update(target, old, new, warnings, write)

    def _update(
        self, target: RequestTarget, old: Json, new: Json, warnings: list[str], write: Write
    ) -> WriteResult:
        check_size(new, write.user, target.kind, old)
        if write.dry_run:
            revision = {"resourceVersion": old["metadata"]["resourceVersion"]}
            return WriteResult(new | {"metadata": new["metadata"] | revision}, tuple(warnings))
        kind = target.kind
        try:
            if deletion.ended(kind.resource, new, self.pods):
                gone = self._store.delete(kind.stored_as, Key(target.namespace, target.name))
                self._written(kind, gone, True)
                return WriteResult(gone, tuple(warnings), gone=True)
            stored = self._store.update(kind.stored_as, new, old["metadata"]["resourceVersion"])
        except NotFound:
            raise not_found(kind, target.name) from None
        except Conflict:
            raise conflict(kind, target.name) from None
        self._written(kind, stored, False)
        return WriteResult(stored, tuple(warnings))

    def delete(self, target: RequestTarget, options: DeleteOptions, write: Write) -> WriteResult:
        """Delete the object, or mark it as being deleted."""
        kind, old = target.kind, self.read(target)
        deletion.check_preconditions(kind, old, options)
        warnings = tuple(self._admission.deleted(target, old, options.propagation, write))
        if kind.resource == "namespaces":
            return self._terminate(target, old, options, write)
        waiting = deletion.marked(kind, old, options, write.now, self.pods)
        dry = options.dry_run or write.dry_run
        if waiting is not None:
            if not dry:
                waiting = self._store.update(kind.stored_as, waiting, None)
                self._written(kind, waiting, False)
            return WriteResult(waiting, warnings)
        if dry:
            return WriteResult(old, warnings, gone=True)
        gone = self._store.delete(kind.stored_as, Key(target.namespace, target.name))
        self._written(kind, gone, True)
        return WriteResult(gone, warnings, gone=True)

    def _terminate(
        self, target: RequestTarget, old: Json, options: DeleteOptions, write: Write
    ) -> WriteResult:
        """Mark the namespace as Terminating; `namespaces` deletes its content."""
        if target.name in _PROTECTED:
            raise forbidden(target.kind, target.name, "this namespace may not be deleted")
        if old["metadata"].get("deletionTimestamp") or options.dry_run:
            return WriteResult(old)
        waiting = deletion.terminating(old, write.now)
        stored = self._store.update(target.kind.stored_as, waiting, None)
        self._written(target.kind, stored, False)
        return WriteResult(stored)

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        found = self._store.get("namespaces", Key("", namespace))
        if found is None:
            raise not_found(self._namespaces(), namespace)
        if dig(found, "metadata", "deletionTimestamp"):
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind, name, why, [cause])

    def _namespaces(self) -> Kind:
        kind = self._kinds.get("namespaces")
        assert kind is not None
        return kind


def patched_json(current: Json, kind: Kind, media: str, body: bytes, most: int) -> Any:
    """The document after a patch of this media type, which has at most so many values."""
    try:
        if media == MERGE_PATCH:
            return merged(current, _object(body, most))
        if media == JSON_PATCH:
            return json_patch(current, read_json(body, most))
        if media == STRATEGIC_PATCH and kind.strategic:
            found, patch = (
                wire.message_of(str(current["apiVersion"]), kind.kind),
                _object(body, most),
            )
            if found is not None:
                return strategic_merge(current, patch, found)
            return merged(current, patch)
    except PatchError as error:
        raise StatusError(422, "Invalid", f"the patch cannot be applied: {error}") from None
    known = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if kind.strategic else []), APPLY_PATCH]
    raise unsupported_media(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(known)
    )


def _object(body: bytes, most: int) -> Json:
    value = read_json(body, most)
    if not isinstance(value, dict):
        raise bad_request("a patch of this kind is an object")
    return value
