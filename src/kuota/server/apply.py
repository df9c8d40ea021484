# SPDX-License-Identifier: Apache-2.0
"""Server-side apply and field ownership.

Applying a configuration sets its fields and makes the applier their owner. A field that another
manager owns with a different value is a conflict, unless the apply is forced. A field that the
applier owned and now omits is removed if nobody else owns it. All other writes take ownership of
what they change. Both functions use the object in the version of the request: apply runs before
defaulting, tracking after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kuota.api import fieldsets, managed_fields
from kuota.api.base import Json
from kuota.api.canonical_json import canonical_json
from kuota.api.fieldsets import FieldSet
from kuota.api.managed_fields import APPLY, UPDATE, Entries, FieldOwner, ManagedFieldsEntry

from .fieldwalk import (
    ABSENT,
    ApplyError,
    Comparison,
    check_keys,
    compared,
    fields_of,
    merged,
    pruned,
)
from .ownership_schema import Schema

BEFORE_FIRST_APPLY = "before-first-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields that the server maintains and nobody owns.
_UNOWNED = fieldsets.from_wire(
    {
        "f:apiVersion": {},
        "f:kind": {},
        "f:metadata": {
            ".": {},
            "f:name": {},
            "f:namespace": {},
            "f:creationTimestamp": {},
            "f:selfLink": {},
            "f:uid": {},
            "f:clusterName": {},
            "f:generation": {},
            "f:managedFields": {},
            "f:resourceVersion": {},
        },
    }
)


Versions = Callable[[Json, str], tuple[Json, Schema] | None]
"""An object in another version of its kind, with the schema of that version.

None if the version is no longer served.
"""


class ApplyConflict(Exception):
    """Other managers own fields that the configuration would change.

    `causes` lists these fields in the format of details.causes of a Status.
    """

    def __init__(self, conflicts: dict[FieldOwner, FieldSet]) -> None:
        self.conflicts = conflicts
        self.causes: list[Json] = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {owner}",
                "field": fieldsets.written(path),
            }
            for owner, fields in sorted(conflicts.items())
            for path in fieldsets.paths(fields)
        ]
        super().__init__(_summary(self.causes))


def _summary(causes: list[Json]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    lines: dict[str, list[str]] = {}
    for cause in causes:
        lines.setdefault(cause["message"], []).append(f"- {cause['field']}")
    parts = [
        f"conflicts{who.removeprefix('conflict')}:\n" + "\n".join(fields)
        for who, fields in lines.items()
    ]
    return f"Apply failed with {len(causes)} conflicts: " + "\n".join(parts)


def applied(
    live: Json | None,
    config: Json,
    *,
    manager: str,
    force: bool,
    now: str,
    schema: Schema,
    subresource: str = "",
    reset: FieldSet | None = None,
    versions: Versions | None = None,
) -> Json:
    """The live object after the configuration was applied; None as live object means a creation.

    `reset` contains fields (in wire form) that this endpoint never sets, such as status. Raises
    ApplyConflict, and ApplyError for an invalid configuration.
    """
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise ApplyError("metadata.managedFields must be nil")
    check_keys(config, schema)
    step = _Step(config.get("apiVersion", ""), schema, fieldsets.from_wire(reset or {}), versions)
    base = _empty(config) if live is None else managed_fields.without_managed(live)
    entries = managed_fields.read(((live or {}).get("metadata") or {}).get("managedFields"))
    if live is not None and not entries:
        entries = step.updated(_empty(config), base, {}, BEFORE_FIRST_APPLY, now, subresource)
    key = managed_fields.owner(manager, APPLY, step.version, subresource)
    try:
        out, after = step.applied(base, config, entries, key, force)
    except ApplyConflict as conflict:
        if manager != "kubectl" or not step.allows(base, conflict):
            raise
        out, after = step.applied(base, config, entries, key, True)
    if key in after:
        # An entry has the time of the last change of the object. One without a change has no time.
        earlier = entries[key].time if key in entries else ""
        time = earlier if out == base else now
        after[key] = msgspec.structs.replace(after[key], time=time)
    if manager == "kubectl":
        out = _annotated(out, config)
    return managed_fields.with_managed(out, after)


def tracked(
    old: Json | None,
    new: Json,
    *,
    manager: str,
    now: str,
    schema: Schema,
    subresource: str = "",
    reset: FieldSet | None = None,
    versions: Versions | None = None,
) -> Json:
    """The new object with updated managedFields.

    For creations (`old` is None), updates and all patches except apply. If the new object contains
    entries, they are used, because clients may edit them. An object without entries stays so until
    the first apply.
    """
    before = ((old or {}).get("metadata") or {}).get("managedFields")
    given = (new.get("metadata") or {}).get("managedFields")
    if subresource or not managed_fields.asks_for_reset(given):
        entries = {} if subresource else managed_fields.readable(given)
        entries = entries or managed_fields.readable(before)
    else:
        entries = {}
    base = managed_fields.without_managed(new)
    if not entries and old is not None:
        return managed_fields.with_managed(base, {})
    step = _Step(new.get("apiVersion", ""), schema, fieldsets.from_wire(reset or {}), versions)
    was = _empty(new) if old is None else managed_fields.without_managed(old)
    after = step.updated(was, base, entries, manager, now, subresource)
    return managed_fields.with_managed(base, managed_fields.capped(after))


def _empty(obj: Json) -> Json:
    """The initial object, before any field is set."""
    return {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", ""), "metadata": {}}


class _Step(msgspec.Struct, frozen=True, gc=False):
    """One write in one version."""

    version: str
    schema: Schema
    reset: FieldSet
    versions: Versions | None

    def view(self, obj: Json, version: str) -> tuple[Json, Schema] | None:
        if version == self.version == obj.get("apiVersion", version):
            return obj, self.schema
        return None if self.versions is None else self.versions(obj, version)

    def compared(self, old: Json, new: Json, version: str) -> Comparison | None:
        """The changes in terms of this version; None if it is no longer served."""
        before, after = self.view(old, version), self.view(new, version)
        if before is None or after is None:
            return None
        found = compared(before[0], after[0], after[1])
        return Comparison(
            *(
                fieldsets.without(s, self.reset)
                for s in (found.added, found.modified, found.removed)
            )
        )

    def updated(
        self, old: Json, new: Json, entries: Entries, manager: str, now: str, subresource: str
    ) -> Entries:
        """The entries after an update, which takes ownership of everything that it changed."""
        found = self.compared(old, new, self.version)
        after, _ = self._shared(old, new, entries, None, {self.version: found})
        changed = fieldsets.difference(found.changed if found else {}, _UNOWNED)
        if changed:
            key = managed_fields.owner(manager, UPDATE, self.version, subresource)
            mine = after.get(key)
            if mine is not None and not fieldsets.difference(changed, mine.fields):
                after[key] = msgspec.structs.replace(mine, time=now)
            else:
                fields = fieldsets.union(changed, mine.fields if mine is not None else {})
                after[key] = ManagedFieldsEntry(self.version, fields, now)
        return after

    def applied(
        self, live: Json, config: Json, entries: Entries, key: FieldOwner, force: bool
    ) -> tuple[Json, Entries]:
        """The object and the entries after an apply; the applier's entry has no time yet."""
        config = _without(config, self.reset)
        fields = fieldsets.without(fields_of(config, self.schema), self.reset)
        mine = ManagedFieldsEntry(self.version, fields)
        out = merged(live, config, self.schema)
        if last := entries.get(key):
            # Repeated for an empty list that the configuration sets but that nobody can own.
            out = merged(self._pruned(out, last, {**entries, key: mine}), config, self.schema)
        out = _without_nulls(out, config)
        after, conflicts = self._shared(live, out, {**entries, key: mine}, key, {})
        if conflicts and not force:
            raise ApplyConflict(conflicts)
        rest = fieldsets.difference(fields, _UNOWNED)
        after[key] = ManagedFieldsEntry(self.version, rest)
        return out, {owner: entry for owner, entry in after.items() if entry.fields}

    def _shared(
        self,
        old: Json,
        new: Json,
        entries: Entries,
        writer: FieldOwner | None,
        seen: dict[str, Comparison | None],
    ) -> tuple[Entries, dict[FieldOwner, FieldSet]]:
        """What the other owners keep, and what they lose to the writer.

        `seen` caches comparisons by version.
        """
        kept: Entries = {}
        lost: dict[FieldOwner, FieldSet] = {}
        for key, entry in entries.items():
            version = entry.api_version
            if key == writer:
                continue
            if version not in seen:
                seen[version] = self.compared(old, new, version)
            found = seen[version]
            if found is None:
                continue
            taken = fieldsets.intersection(entry.fields, found.changed)
            if not taken and not fieldsets.intersection(entry.fields, found.removed):
                kept[key] = entry
                continue
            if taken:
                lost[key] = taken
            rest = fieldsets.difference(fieldsets.difference(entry.fields, taken), found.removed)
            if rest:
                kept[key] = ManagedFieldsEntry(version, rest, entry.time)
        return kept, lost

    def _pruned(self, obj: Json, last: ManagedFieldsEntry, entries: Entries) -> Json:
        """The object without fields that the applier gave up and nobody else owns."""
        start = self.view(obj, last.api_version)
        if start is None:
            return obj
        by_version: dict[str, list[ManagedFieldsEntry]] = {last.api_version: []}
        for entry in entries.values():
            by_version.setdefault(entry.api_version, []).append(entry)
        gone = last.fields
        out: Any = obj
        for version, owners in by_version.items():
            whole = self.view(obj, version)
            part = self.view(out, version) if out is not obj else None
            if whole is None or (part is None and out is not obj):
                continue
            if part is not None:
                gone = compared(part[0], whole[0], whole[1]).added
            out = pruned(whole[0], gone, managed_fields.owned(owners), whole[1])
            out = {} if out is ABSENT else out
        back = self.view(out, self.version)
        return obj if back is None else back[0]

    def allows(self, live: Json, conflict: ApplyConflict) -> bool:
        """Whether every conflict is with unchanged fields of client-side apply.

        This lets kubectl migrate an object from client-side to server-side apply without force.
        """
        text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        try:
            last = msgspec.json.decode(text or "", type=dict[str, Any])
        except msgspec.DecodeError:
            return False
        if last.get("apiVersion") != self.version:
            return False
        found = compared(last, live, self.schema)
        differing = fieldsets.union(found.changed, found.removed)
        allowed = fieldsets.difference(fields_of(last, self.schema), differing)
        return not any(
            fieldsets.difference(fields, allowed) for fields in conflict.conflicts.values()
        )


def _annotated(obj: Json, config: Json) -> Json:
    """The object with an updated last-applied annotation, if it has one."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return obj
    own = dict(config.get("metadata") or {})
    if "annotations" in own:
        own["annotations"] = {k: v for k, v in own["annotations"].items() if k != LAST_APPLIED}
    text = canonical_json({**config, "metadata": own}).decode() + "\n"
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def _without(config: Json, reset: FieldSet) -> Json:
    out = {}
    for name, value in config.items():
        below = reset.get(fieldsets.field(name))
        if below is None:
            out[name] = value
        elif fieldsets.SELF not in below and isinstance(value, dict):
            out[name] = _without(value, below)
    return out


def _without_nulls(obj: Any, config: Any) -> Any:
    """The object without null values of the configuration, which mean no value."""
    if not isinstance(obj, dict) or not isinstance(config, dict):
        return obj
    return {
        name: _without_nulls(value, config.get(name))
        for name, value in obj.items()
        if value is not None or name not in config
    }
