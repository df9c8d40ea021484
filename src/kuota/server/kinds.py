# SPDX-License-Identifier: Apache-2.0
"""The registry of served kinds, with versions, verbs and subresources.

A *kind* is stored in one version and served in several. Kinds are built in (`builtin_kinds`),
Kueue's, or defined by CustomResourceDefinitions at run time (`crd`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec

from kuota.api import crds
from kuota.api.base import Json
from kuota.api.convert import convert
from kuota.api.structure import SchemaNode

from .columns import AGE, NAME, Column
from .shapes import PREFIX, compiler

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Scale(msgspec.Struct, frozen=True):
    """The JSON paths of the scale subresource of a kind."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class Version(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One served version of a kind. `warnings` are sent with every response.

    `shape` names the type if it is one of Kubernetes' own.
    """

    name: str
    schema: Json
    shape: str = ""
    columns: tuple[Column, ...] = (NAME, AGE)
    status: bool = False
    scale: Scale | None = None
    warnings: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()

    @cached_property
    def structure(self) -> SchemaNode:
        """The schema, compiled."""
        made = compiler()
        return made.named(PREFIX + self.shape) if self.shape else made.node(self.schema)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. `versions` are in order of preference; `stored` is the stored version.

    `strategic` kinds support strategic merge patches and are validated while they are decoded, like
    Kubernetes' own. `generations` means that changes of the spec are counted. A CustomResource-
    Definition of the same name takes the place of a `provisional` kind.
    """

    group: str
    plural: str
    kind: str
    versions: tuple[Version, ...]
    stored: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    strategic: bool = False
    generations: bool = True
    storage: str = ""
    list_kind: str = ""
    provisional: bool = False

    @property
    def resource(self) -> str:
        """The name of the resource: "jobs.batch", or "pods" in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_as(self) -> str:
        """The resource in the store. The two Event APIs share one."""
        return self.storage or self.resource

    @property
    def kept(self) -> bool:
        """Whether objects of this kind are stored. Reviews are not."""
        return "get" in self.verbs

    def version(self, name: str) -> Version | None:
        return next((each for each in self.versions if each.name == name), None)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def listing(self) -> str:
        return self.list_kind or f"{self.kind}List"


class Kinds:
    """The kinds by group, version and plural. `edition` changes whenever the kinds do."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._by_resource: dict[str, Kind] = {}
        self._by_path: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        self.edition = 0
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def add(self, kind: Kind) -> None:
        """Serve the kind, replacing an earlier one of the same resource."""
        self.remove(kind.resource)
        self._by_resource[kind.resource] = kind
        for version in kind.versions:
            self._by_path[kind.group, version.name, kind.plural] = (kind, version)
        self.edition += 1

    def remove(self, resource: str) -> None:
        kind = self._by_resource.pop(resource, None)
        if kind is None:
            return
        for version in kind.versions:
            del self._by_path[kind.group, version.name, kind.plural]
        self.edition += 1

    def get(self, resource: str) -> Kind | None:
        return self._by_resource.get(resource)

    def find(self, group: str, version: str, plural: str) -> tuple[Kind, Version] | None:
        """The kind and version at /apis/GROUP/VERSION/.../PLURAL."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, group: str, kind: str) -> Kind | None:
        """The kind of this name in the group, as in owner references."""
        return next((each for each in self if each.group == group and each.kind == kind), None)

    def by_group(self) -> dict[str, dict[str, list[Kind]]]:
        """Kinds by group and version: core group first, versions in order of preference."""
        groups: dict[str, dict[str, list[Kind]]] = {"": {}}
        for kind in self:
            versions = groups.setdefault(kind.group, {})
            for version in kind.versions:
                versions.setdefault(version.name, []).append(kind)
        return {
            group: {name: versions[name] for name in sorted(versions, key=preference)}
            for group, versions in groups.items()
        }


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_MATURITY = {None: 0, "beta": 1, "alpha": 2}


def preference(version: str) -> tuple[int, int, int, str]:
    """A sort key for versions as in Kubernetes: stable, beta, alpha, newest first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    return (_MATURITY[match[2]], -int(match[1]), -int(match[3] or 0), version)


_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def stored_form(kind: Kind, obj: Json) -> Json:
    """The object in stored form. The argument is not changed."""
    if kind.storage == "events":
        return core_event(obj)
    return _in_version(kind, obj, kind.stored)


def core_event(event: Json) -> Json:
    """An Event of events.k8s.io/v1 in the form of core/v1."""
    return _renamed(event, _CORE_NAMES) | {"apiVersion": "v1"}


def served_form(kind: Kind, obj: Json, version: str) -> Json:
    """A stored object in the form of `version`. The argument is not changed."""
    if kind.storage == "events":
        served = _renamed(obj, _EVENT_NAMES) | {"apiVersion": kind.api_version(version)}
        # Required in this version, and null for events of the older API.
        return {"eventTime": None} | served
    return _in_version(kind, obj, version)


def same_form(kind: Kind, version: str) -> bool:
    """Whether the served form in this version equals the stored form."""
    return version == kind.stored and not kind.storage


def _in_version(kind: Kind, obj: Json, version: str) -> Json:
    if obj.get("apiVersion") == kind.api_version(version):
        return obj
    if kind.group == crds.GROUP:
        return convert(obj, version)
    return obj | {"apiVersion": kind.api_version(version)}


def _renamed(event: Json, names: dict[str, str]) -> Json:
    return {names.get(name, name): value for name, value in event.items()}
