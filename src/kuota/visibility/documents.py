# SPDX-License-Identifier: Apache-2.0
"""Discovery (legacy and aggregated) and OpenAPI documents of the API groups served here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from kuota.api.base import Json

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_GVK = "x-kubernetes-group-version-kind"


class Subresource(msgspec.Struct, frozen=True):
    """A subresource that can be read. The response is a `response_kind`, or text."""

    name: str
    response_kind: str
    query: tuple[str, ...] = ()
    """The integer parameters of a request."""
    words: tuple[str, ...] = ()
    """The other parameters of a request."""
    text: bool = False


class ServedResource(msgspec.Struct, frozen=True):
    """A resource of which only subresources can be read, or only the whole collection.

    A collection is read in one namespace or in all, and the response is a `kind`.
    """

    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[Subresource, ...] = ()
    words: tuple[str, ...] = ()
    """The parameters of a request for the collection."""

    @property
    def verbs(self) -> list[str]:
        return [] if self.subresources else ["get"]


class ApiGroup(msgspec.Struct, frozen=True):
    """An API group. The preferred version is first; all versions have the same schema."""

    name: str
    versions: tuple[str, ...]
    resources: tuple[ServedResource, ...]
    schemas: Callable[[Callable[[str], str]], Json]
    """Returns the schema of each kind. The argument returns the reference to a kind's schema."""
    package: str
    """The prefix of the schemas' names in OpenAPI documents."""


def object_schema(**fields: Json) -> Json:
    """Return the schema of an object with these fields."""
    return {"type": "object", "properties": fields}


class GroupDocuments:
    """The documents of these groups, which one server serves."""

    def __init__(self, served: tuple[ApiGroup, ...]) -> None:
        self._served = served

    def find(self, path: str, accept: str) -> tuple[Json, str] | None:
        """Return the document at a path and its content type; None for all other paths."""
        parts = path.strip("/").split("/")
        if parts == ["apis"] and "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
            return self._aggregated(), AGGREGATED
        found = self._legacy(parts) or self._openapi(parts)
        return (found, "application/json") if found is not None else None

    def _legacy(self, parts: list[str]) -> Json | None:
        match parts:
            case ["apis"]:
                listed = [_described(each) for each in self._served]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
            case ["apis", name] if group := self._group(name):
                return {"kind": "APIGroup", "apiVersion": "v1"} | _described(group)
            case ["apis", name, version] if group := self._group(name, version):
                return _resources(group, version)
        return None

    def _openapi(self, parts: list[str]) -> Json | None:
        match parts:
            case ["openapi", "v2"]:
                return self._openapi_v2()
            case ["openapi", "v3"]:
                return self._openapi_index()
            case ["openapi", "v3", "apis", name, version] if group := self._group(name, version):
                return _openapi_v3(group, version)
        return None

    def _group(self, name: str, version: str | None = None) -> ApiGroup | None:
        group = next((each for each in self._served if each.name == name), None)
        known = group is not None and (version is None or version in group.versions)
        return group if known else None

    def _versions(self) -> Iterator[tuple[ApiGroup, str]]:
        return ((group, version) for group in self._served for version in group.versions)

    def _aggregated(self) -> Json:
        items = [
            {
                "metadata": {"name": group.name},
                "versions": [
                    {
                        "version": each,
                        "resources": _aggregated_resources(group, each),
                        "freshness": "Current",
                    }
                    for each in group.versions
                ],
            }
            for group in self._served
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    def _openapi_index(self) -> Json:
        """The location of each document of OpenAPI v3."""
        paths = {}
        for group, version in self._versions():
            path = f"apis/{group.name}/{version}"
            encoded = msgspec.json.encode(_openapi_v3(group, version))
            digest = hashlib.sha256(encoded).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _openapi_v2(self) -> Json:
        """All groups and versions in one document."""
        paths: Json = {}
        definitions: Json = {}
        for group, version in self._versions():
            definitions |= _schemas(group, version, "#/definitions/")
            for path, resource, below in _paths(group, version):
                paths[path] = {"get": _operation(group, version, resource, below, v3=False)}
        return {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": definitions}


def _described(group: ApiGroup) -> Json:
    versions = [
        {"groupVersion": f"{group.name}/{each}", "version": each} for each in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: ApiGroup, version: str) -> Json:
    listed: list[Json] = []
    for each in group.resources:
        common = {"namespaced": each.namespaced, "singularName": ""}
        parent = {"name": each.plural, "singularName": each.kind.lower(), "kind": each.kind}
        listed.append(common | parent | {"verbs": each.verbs})
        for below in each.subresources:
            name = f"{each.plural}/{below.name}"
            listed.append(common | {"name": name, "kind": below.response_kind, "verbs": ["get"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group.name}/{version}",
        "resources": listed,
    }


def _aggregated_resources(group: ApiGroup, version: str) -> list[Json]:
    def kind_of(name: str) -> Json:
        return {"group": group.name, "version": version, "kind": name}

    return [
        {
            "resource": each.plural,
            "responseKind": kind_of(each.kind),
            "scope": "Namespaced" if each.namespaced else "Cluster",
            "singularResource": each.kind.lower(),
            "verbs": each.verbs,
            "subresources": [
                {
                    "subresource": below.name,
                    "responseKind": kind_of(below.response_kind),
                    "verbs": ["get"],
                }
                for below in each.subresources
            ],
        }
        for each in group.resources
    ]


def _openapi_v3(group: ApiGroup, version: str) -> Json:
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": {
            path: {"get": _operation(group, version, resource, below, v3=True)}
            for path, resource, below in _paths(group, version)
        },
        "components": {"schemas": _schemas(group, version, "#/components/schemas/")},
    }


def _info() -> Json:
    return {"title": "Kuota visibility", "version": "v0.1"}


def _paths(group: ApiGroup, version: str) -> list[tuple[str, ServedResource, Subresource]]:
    at = f"/apis/{group.name}/{version}"
    within = {True: "/namespaces/{namespace}", False: ""}
    return [
        (f"{at}{within[each.namespaced]}/{each.plural}/{{name}}/{below.name}", each, below)
        for each in group.resources
        for below in each.subresources
    ] + [
        (f"{at}{within[True]}/{each.plural}", each, Subresource("", each.kind, words=each.words))
        for each in group.resources
        if not each.subresources
    ]


def _operation(
    group: ApiGroup, version: str, resource: ServedResource, below: Subresource, *, v3: bool
) -> Json:
    def parameter(name: str, where: str, of: str) -> Json:
        shape: Json = {"schema": {"type": of}} if v3 else {"type": of}
        return {"name": name, "in": where, "required": where == "path"} | shape

    words = [("namespace", "path", "string")] if resource.namespaced else []
    words += [("name", "path", "string")] if below.name else []
    words += [(each, "query", "integer") for each in below.query]
    words += [(each, "query", "string") for each in below.words]
    base = "#/components/schemas/" if v3 else "#/definitions/"
    schema: Json = {"$ref": base + _name(group, version, below.response_kind)}
    media = "text/plain" if below.text else "application/json"
    if below.text:
        schema = {"type": "string"}
    answer: Json = {"description": "OK"}
    answer |= {"content": {media: {"schema": schema}}} if v3 else {"schema": schema}
    return {
        "operationId": f"read{version}{resource.plural}{below.name}",
        "parameters": [parameter(*each) for each in words],
        "responses": {"200": answer},
        "x-kubernetes-action": "get",
        _GVK: {"group": group.name, "version": version, "kind": below.response_kind},
    } | ({} if v3 else {"produces": [media]})


def _name(group: ApiGroup, version: str, kind: str) -> str:
    return f"{group.package}.{version}.{kind}"


def _schemas(group: ApiGroup, version: str, ref: str) -> Json:
    """Return all schemas. Those of responses name their group, version and kind."""
    found = group.schemas(lambda kind: f"{ref}{_name(group, version, kind)}")
    for kind in {below.response_kind for _, _, below in _paths(group, version)}:
        found[kind] |= {_GVK: [{"group": group.name, "version": version, "kind": kind}]}
    return {_name(group, version, kind): schema for kind, schema in found.items()}
