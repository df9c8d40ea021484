# SPDX-License-Identifier: Apache-2.0
"""The metadata that the server maintains: identity, times, generation, generated names."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from kuota.api import names
from kuota.api.base import Json
from kuota.api.faults import FieldError, forbidden, invalid, required
from kuota.api.rules.metadata import annotation_faults, label_faults, name_faults
from kuota.api.status import bad_request

from .columns import listed, mapped
from .kinds import Kind

# No vowels and no similar characters, so that no words are generated.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "name",
    "namespace",
)
_ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "status"})


NAMELESS = required("metadata.name", "name or generateName is required")


def timestamp(now: datetime) -> str:
    """The time in the format of Kubernetes: whole seconds, in UTC."""
    return now.astimezone(UTC).isoformat()[:19] + "Z"


def born(metadata: Json, kind: Kind, namespace: str, now: datetime) -> Json:
    """The metadata of a new object."""
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    kept = {
        name: value
        for name, value in metadata.items()
        if name not in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
    }
    kept.pop("resourceVersion", None)
    if not kept.get("name") and kept.get("generateName"):
        kept["name"] = made_up(str(kept["generateName"]))
    kept |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp(now)}
    if kind.namespaced:
        kept["namespace"] = namespace
    else:
        kept.pop("namespace", None)
    return kept | {"generation": 1} if kind.generations else kept


def made_up(base: str) -> str:
    """A name with this prefix and five random characters."""
    return base[:_LONGEST_BASE] + "".join(secrets.choice(_LETTERS) for _ in range(5))


def succeeding(new: Json, old: Json) -> Json:
    """The metadata of an update, with server-maintained fields of the stored object."""
    kept = {
        name: value
        for name, value in new.items()
        if name not in _KEPT and name not in ("selfLink", "resourceVersion", "generation")
    }
    owned = {name: old[name] for name in (*_KEPT, "generation") if name in old}
    return kept | owned


def content(obj: Json, *, with_status: bool) -> Json:
    """The content that a generation counts: without metadata and a separate status."""
    left_out = _ENVELOPE if not with_status else _ENVELOPE - {"status"}
    return {name: value for name, value in obj.items() if name not in left_out}


def metadata_faults(obj: Json, kind: Kind, old: Json | None = None) -> Iterator[FieldError]:
    """Faults of the metadata of an object of any kind.

    Parts that are identical in `old` were validated when it was stored.
    """
    metadata = mapped(obj.get("metadata"))
    before = {} if old is None else mapped(old.get("metadata"))
    if old is None:
        yield from name_faults(obj, _NAME_FORMS.get(kind.resource, names.dns_subdomain))
    for field, check in _CHECKS.items():
        if field in metadata and metadata[field] != before.get(field):
            yield from check(metadata[field], f"metadata.{field}")


def _finalizer_faults(finalizers: Any, path: str) -> Iterator[FieldError]:
    for at, finalizer in enumerate(listed(finalizers)):
        for complaint in names.qualified_name(str(finalizer)):
            yield invalid(f"{path}[{at}]", finalizer, complaint)


def _owner_faults(owners: Any, path: str) -> Iterator[FieldError]:
    for at, owner in enumerate(listed(owners)):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield required(f"{path}[{at}].{field}", "must not be empty")


_NAME_FORMS = {
    "namespaces": names.dns_label,
    "rolebindings.rbac.authorization.k8s.io": names.path_segment,
}
_CHECKS: dict[str, Callable[[Any, str], Iterator[FieldError]]] = {
    "labels": label_faults,
    "annotations": annotation_faults,
    "finalizers": _finalizer_faults,
    "ownerReferences": _owner_faults,
}


def metadata_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    """Reject new finalizers on an object that is being deleted."""
    before, after = mapped(old.get("metadata")), mapped(new.get("metadata"))
    if not before.get("deletionTimestamp"):
        return
    added = [
        each
        for each in listed(after.get("finalizers"))
        if each not in listed(before.get("finalizers"))
    ]
    if added:
        message = "no new finalizers can be added if the object is being deleted"
        yield forbidden("metadata.finalizers", message)
