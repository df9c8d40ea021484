# SPDX-License-Identifier: Apache-2.0
"""Discovery (legacy and aggregated) and OpenAPI documents of the visibility API."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from kuota.api.base import Json

from .pending import GROUP, KIND, VERSIONS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RESOURCES = (("clusterqueues", "ClusterQueue", False), ("localqueues", "LocalQueue", True))
"""Plural, kind, and whether it is namespaced."""
SUBRESOURCE = "pendingworkloads"

_GVK = "x-kubernetes-group-version-kind"


def groups() -> Json:
    """The response to /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_described()]}


def group() -> Json:
    """The response to /apis/GROUP."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _described()


def _described() -> Json:
    versions = [{"groupVersion": f"{GROUP}/{each}", "version": each} for each in VERSIONS]
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def resources(version: str) -> Json:
    """The response to /apis/GROUP/VERSION. Only the subresource can be read."""
    listed: list[Json] = []
    for plural, kind, namespaced in RESOURCES:
        at = {"namespaced": namespaced, "singularName": ""}
        named = {"name": plural, "singularName": kind.lower(), "kind": kind, "verbs": []}
        below = {"name": f"{plural}/{SUBRESOURCE}", "kind": KIND, "verbs": ["get"]}
        listed += [at | named, at | below]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": listed,
    }


def aggregated() -> Json:
    """Aggregated discovery: all of that in one document."""
    versions = [
        {"version": each, "resources": _aggregated(each), "freshness": "Current"}
        for each in VERSIONS
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{"metadata": {"name": GROUP}, "versions": versions}],
    }


def _aggregated(version: str) -> list[Json]:
    def kind_of(name: str) -> Json:
        return {"group": GROUP, "version": version, "kind": name}

    below = {"subresource": SUBRESOURCE, "responseKind": kind_of(KIND), "verbs": ["get"]}
    return [
        {
            "resource": plural,
            "responseKind": kind_of(kind),
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": kind.lower(),
            "verbs": [],
            "subresources": [below],
        }
        for plural, kind, namespaced in RESOURCES
    ]


def openapi_index() -> Json:
    """The response to /openapi/v3: the location of each document."""
    paths = {}
    for version in VERSIONS:
        path = f"apis/{GROUP}/{version}"
        digest = hashlib.sha256(msgspec.json.encode(openapi_v3(version))).hexdigest()[:32].upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def openapi_v3(version: str) -> Json:
    """The document of one version."""
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": {
            path: {"get": _operation(version, plural, namespaced, v3=True)}
            for path, plural, namespaced in _paths(version)
        },
        "components": {"schemas": _schemas(version, "#/components/schemas/")},
    }


def openapi_v2() -> Json:
    """The response to /openapi/v2: both versions in one."""
    paths: Json = {}
    definitions: Json = {}
    for version in VERSIONS:
        definitions |= _schemas(version, "#/definitions/")
        for path, plural, namespaced in _paths(version):
            paths[path] = {"get": _operation(version, plural, namespaced, v3=False)}
    return {"swagger": "2.0", "info": _info(), "paths": paths, "definitions": definitions}


def _info() -> Json:
    return {"title": "Kuota visibility", "version": "v0.1"}


def _paths(version: str) -> list[tuple[str, str, bool]]:
    at = f"/apis/{GROUP}/{version}"
    within = {True: "/namespaces/{namespace}", False: ""}
    return [
        (f"{at}{within[namespaced]}/{plural}/{{name}}/{SUBRESOURCE}", plural, namespaced)
        for plural, _, namespaced in RESOURCES
    ]


def _operation(version: str, plural: str, namespaced: bool, *, v3: bool) -> Json:
    def parameter(name: str, where: str, of: str) -> Json:
        shape: Json = {"schema": {"type": of}} if v3 else {"type": of}
        return {"name": name, "in": where, "required": where == "path"} | shape

    words = [("namespace", "path", "string")] if namespaced else []
    words += [("name", "path", "string"), ("limit", "query", "integer")]
    words.append(("offset", "query", "integer"))
    schema = {
        "$ref": f"{'#/components/schemas/' if v3 else '#/definitions/'}{_name(version, KIND)}"
    }
    answer: Json = {"description": "OK"}
    answer |= {"content": {"application/json": {"schema": schema}}} if v3 else {"schema": schema}
    kind = {"group": GROUP, "version": version, "kind": KIND}
    return {
        "operationId": f"read{version}{plural}{SUBRESOURCE}",
        "parameters": [parameter(*each) for each in words],
        "responses": {"200": answer},
        "x-kubernetes-action": "get",
        _GVK: kind,
    } | ({} if v3 else {"produces": ["application/json"]})


def _name(version: str, kind: str) -> str:
    return f"io.x-k8s.kueue.visibility.{version}.{kind}"


def _schemas(version: str, ref: str) -> Json:
    number: Json = {"type": "integer", "format": "int32"}
    text: Json = {"type": "string"}
    anything: Json = {"type": "object"}

    def shape(**fields: Any) -> Json:
        return {"type": "object", "properties": fields}

    one = shape(
        metadata=anything,
        priority=number,
        localQueueName=text,
        positionInClusterQueue=number,
        positionInLocalQueue=number,
    )
    items = {"type": "array", "items": {"$ref": f"{ref}{_name(version, 'PendingWorkload')}"}}
    many = shape(apiVersion=text, kind=text, metadata=anything, items=items)
    many[_GVK] = [{"group": GROUP, "version": version, "kind": KIND}]
    return {_name(version, "PendingWorkload"): one, _name(version, KIND): many}
