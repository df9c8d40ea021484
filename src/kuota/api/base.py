# SPDX-License-Identifier: Apache-2.0
"""Defines the structs shared by all Kubernetes objects: metadata, conditions, keys, selectors.

Decoding keeps only the declared fields, so a decoded object is read-only: writers send a patch,
never a re-encoded struct. An absent string is "", and an absent list or object is None. Defaulting
is a separate step (`kuota.api.defaults`), because "unset" sometimes differs from the default.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, dataclass_transform

import msgspec

Json = dict[str, Any]
Quantity = str | int | float
ResourceList = dict[str, Quantity]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """Base class of API structs: immutable, camelCase on the wire, with empty fields omitted."""


class Key(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """The key of an object. Cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Parse `namespace/name` or a bare name."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: "" for the core group."""
    return api_version.rpartition("/")[0]


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group_kind(self) -> tuple[str, str]:
        return group_of(self.api_version), self.kind


class ObjectMeta(Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def label(self, name: str) -> str:
        """Return the value of the label, or "" if it is absent."""
        return (self.labels or {}).get(name, "")

    def annotation(self, name: str) -> str:
        """Return the value of the annotation, or "" if it is absent."""
        return (self.annotations or {}).get(name, "")


class Condition(Struct):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Object(Struct):
    """The fields of every kind. Subclasses add spec and status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        return self.metadata.key


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Struct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


def condition(conditions: list[Condition] | None, type_: str) -> Condition | None:
    """Return the condition of this type, or None if it is absent."""
    for each in conditions or ():
        if each.type == type_:
            return each
    return None


def by_type(conditions: list[Condition] | None) -> dict[str, Condition]:
    """Return the conditions by type. If a type occurs more than once, the first one is used."""
    found: dict[str, Condition] = {}
    for each in conditions or ():
        found.setdefault(each.type, each)
    return found


def true_condition(conditions: list[Condition] | None, type_: str) -> Condition | None:
    """Return the condition of this type if its status is True, else None."""
    found = condition(conditions, type_)
    return found if found is not None and found.status == "True" else None


def is_true(conditions: list[Condition] | None, type_: str) -> bool:
    return true_condition(conditions, type_) is not None
