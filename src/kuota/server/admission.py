# SPDX-License-Identifier: Apache-2.0
"""Prepares an object for the store: cleaning, defaults, hooks, validation.

Objects arrive in the version of the request and leave in the stored version. Faults refer to the
version that was written. Hooks take the place of mutating webhooks: the server is constructed with
functions that may change or reject an object. Validators take the place of validating ones: they
see the object as it will be stored, and also deletions. Advisers only return warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from kuota.api.base import Json
from kuota.api.faults import FieldError, Invalid
from kuota.api.gates import Gates
from kuota.api.status import StatusError, bad_request
from kuota.api.structure import Cleaning

from . import kind_rules
from .columns import mapped
from .kinds import Kind, served_form, stored_form
from .metadata import NAMELESS, born, content, succeeding
from .requests import RequestTarget, User
from .status import conflict, invalid

_OF_STATUS = ("apiVersion", "kind", "metadata", "status")


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One write as passed to a hook: the object to be stored, and the one that it replaces."""

    kind: Kind
    object: Json
    old: Json | None
    user: User
    subresource: str = ""
    dry_run: bool = False


Hook = Callable[[Review], Json]
"""Returns the object, changed or not. Raises `Invalid` or StatusError to reject it.

Faults are reported together with those of other hooks and of validation.
"""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """One deletion as passed to a validator. `propagation` is "" if the request names no policy."""

    kind: Kind
    object: Json
    user: User
    propagation: str = ""
    dry_run: bool = False


Validator = Callable[[Review | Deletion], Sequence[str]]
"""Returns warnings about an accepted request. Raises StatusError to reject it."""


Adviser = Callable[[Review], Sequence[str]]
"""Returns warnings about an object that is accepted. They are sent with the answer."""


Owned = Callable[[Json], Json]
"""Returns the object with updated managedFields."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """The writer and the common options of create, replace and patch."""

    user: User
    now: datetime
    manager: str = ""
    dry_run: bool = False
    validation: str = ""
    duplicates: tuple[str, ...] = ()


class AdmissionChain:
    """Prepares objects for the store. Reads and writes nothing itself."""

    def __init__(
        self,
        hooks: Sequence[Hook] = (),
        gates: Gates | None = None,
        advisers: Sequence[Adviser] = (),
        validators: Sequence[Validator] = (),
    ) -> None:
        self._hooks = tuple(hooks)
        self._validators = tuple(validators)
        self._advisers = tuple(advisers)
        self._gates = gates or Gates()

    def created(
        self, target: RequestTarget, written: Json, write: Write, owned: Owned | None = None
    ) -> tuple[Json, list[str]]:
        """The object to store, and warnings. The argument may be changed.

        `owned` records field ownership before the server adds generated fields.
        """
        kind, version = target.kind, target.version
        identify(target, written)
        obj, warnings = cleaned(target, written, write)
        metadata = mapped(obj.get("metadata"))
        obj["metadata"] = born(metadata, kind, target.namespace, write.now)
        if not obj["metadata"].get("name"):
            raise invalid(kind, "", [NAMELESS])
        if version.status:
            obj.pop("status", None)
        obj = kind_rules.filled_new(kind, version, obj, self._gates)
        stored = stored_form(kind, obj)
        if owned is not None:
            stored = owned(stored)
        kind_rules.generate(kind, stored)
        stored, faults = self._reviewed(target, stored, None, write)
        self._check(target, stored, None, faults)
        warnings += self._validated(_review(target, stored, None, write))
        return stored, [*warnings, *self._advice(target, stored, None, write)]

    def updated(
        self, target: RequestTarget, written: Json, old: Json, write: Write
    ) -> tuple[Json, list[str]]:
        """The object that replaces `old`, and warnings. `old` is not changed."""
        kind, version = target.kind, target.version
        identify(target, written)
        if target.subresource == "status":
            written = {name: written[name] for name in _OF_STATUS if name in written}
        obj, warnings = cleaned(target, written, write, old)
        _check_identity(target, obj, old)
        obj = kind_rules.filled_changed(kind, version, obj, target.subresource)
        new = _separated(target, stored_form(kind, obj), old)
        new, faults = self._reviewed(target, new, old, write)
        new["metadata"] = _counted(target, new, old)
        self._check(target, new, old, faults)
        warnings += self._validated(_review(target, new, old, write))
        return new, [*warnings, *self._advice(target, new, old, write)]

    def deleted(
        self, target: RequestTarget, obj: Json, propagation: str, write: Write
    ) -> list[str]:
        """Return warnings about the deletion of `obj`. Raises StatusError to reject it."""
        return self._validated(
            Deletion(
                kind=target.kind,
                object=obj,
                user=write.user,
                propagation=propagation,
                dry_run=write.dry_run,
            )
        )

    def _validated(self, request: Review | Deletion) -> list[str]:
        return [warning for each in self._validators for warning in each(request)]

    def _reviewed(
        self, target: RequestTarget, obj: Json, old: Json | None, write: Write
    ) -> tuple[Json, list[FieldError]]:
        """The object after all hooks, and the faults that they found."""
        faults: list[FieldError] = []
        for hook in self._hooks:
            try:
                obj = hook(_review(target, obj, old, write))
            except Invalid as error:
                faults += error.errors
        return obj, faults

    def _advice(
        self, target: RequestTarget, obj: Json, old: Json | None, write: Write
    ) -> list[str]:
        if not self._advisers:
            return []
        review = _review(target, obj, old, write)
        return [warning for adviser in self._advisers for warning in adviser(review)]

    def _check(
        self, target: RequestTarget, obj: Json, old: Json | None, faults: Sequence[FieldError]
    ) -> None:
        """Validate the object. Raises StatusError with all faults, including those of hooks."""
        kind, version = target.kind, target.version
        before = None if old is None else served_form(kind, old, version.name)
        after = served_form(kind, obj, version.name)
        found = kind_rules.faults(kind, version, after, before, self._gates)
        found += [each for each in faults if each not in found]
        if found:
            raise invalid(kind, str(obj["metadata"].get("name", "")), found)


def _review(target: RequestTarget, obj: Json, old: Json | None, write: Write) -> Review:
    return Review(
        kind=target.kind,
        object=obj,
        old=old,
        user=write.user,
        subresource=target.subresource,
        dry_run=write.dry_run,
    )


def identify(target: RequestTarget, obj: Json) -> None:
    """Set the fields that the path determines, and reject contradictions. Changes the object."""
    for field, wanted in (("apiVersion", target.api_version), ("kind", target.kind.kind)):
        found = obj.setdefault(field, wanted)
        if found != wanted:
            raise bad_request(
                f"the {field} in the data ({str(found)[:100]}) does not match "
                f"the expected {field} ({wanted})"
            )
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    found = metadata.get("namespace")
    if target.kind.namespaced and found and found != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({str(metadata['name'])[:100]}) does not match "
            f"the name on the URL ({target.name})"
        )


def cleaned(
    target: RequestTarget, obj: Json, write: Write, old: Json | None = None
) -> tuple[Json, list[str]]:
    """The object without unknown fields, and warnings about them. Raises StatusError if strict."""
    cleaning = Cleaning(stored=old)
    result = cleaning.clean(obj, target.version.structure)
    said = [f'duplicate field "{path}"' for path in write.duplicates]
    said += [f'unknown field "{each.path}"' for each in cleaning.unknown]
    kind = target.kind
    if said and write.validation == "Strict":
        raise bad_request(
            f'{kind.kind} in version "{target.version.name}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(said)}"
        )
    if cleaning.mistyped:
        raise _mistyped(target, result, cleaning)
    if result is obj:
        result = dict(obj)
    return result, [] if write.validation == "Ignore" else said


def _mistyped(target: RequestTarget, obj: Json, cleaning: Cleaning) -> StatusError:
    """The rejection of mistyped fields.

    Kubernetes' own kinds fail to decode as a whole; for other kinds, the fields are listed.
    """
    if not target.kind.strategic:
        name = mapped(obj.get("metadata")).get("name")
        return invalid(target.kind, str(name or target.name), cleaning.mistyped)
    faults = "; ".join(str(each) for each in cleaning.mistyped)
    return bad_request(
        f'{target.kind.kind} in version "{target.version.name}" cannot be handled as a '
        f"{target.kind.kind}: {faults}"
    )


def _check_identity(target: RequestTarget, obj: Json, old: Json) -> None:
    """Reject an update whose uid or resourceVersion does not match the stored object."""
    metadata, current = obj["metadata"], old["metadata"]
    uid, revision = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != current["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise conflict(target.kind, target.name, why + str(current["uid"]))
    if revision and revision != current["resourceVersion"]:
        raise conflict(target.kind, target.name)


def _separated(target: RequestTarget, new: Json, old: Json) -> Json:
    """Status is only written through its subresource, which writes nothing else."""
    if target.subresource == "status":
        metadata = dict(old["metadata"])
        if "managedFields" in new["metadata"]:
            metadata["managedFields"] = new["metadata"]["managedFields"]
        rest = {name: value for name, value in old.items() if name != "status"}
        rest["metadata"] = metadata
        return rest | ({"status": new["status"]} if "status" in new else {})
    result = dict(new)
    if target.version.status:
        result.pop("status", None)
        if "status" in old:
            result["status"] = old["status"]
    if target.kind.resource == "namespaces" and "spec" in old:
        result["spec"] = old["spec"]
    result["metadata"] = succeeding(mapped(new.get("metadata")), old["metadata"])
    return result


def _counted(target: RequestTarget, new: Json, old: Json) -> Json:
    """The metadata with its generation, which counts changes outside metadata and status."""
    metadata: Json = new["metadata"]
    if not target.kind.generations:
        return metadata
    apart = target.version.status
    if content(new, with_status=not apart) == content(old, with_status=not apart):
        return metadata
    return metadata | {"generation": int(old["metadata"].get("generation") or 0) + 1}
