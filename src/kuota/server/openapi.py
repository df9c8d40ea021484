# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3 documents: an index, and one document per group and version. Empty for OpenAPI v2.

kubectl reads them before it applies, creates or explains objects. Paths declare the supported
patches and parameters; schemas declare fields and how lists merge.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from kuota.api.base import Json

from .kinds import Kind, Kinds, Version
from .requests import Response, answered
from .shape_descriptions import ShapeDescriptions
from .shapes import REF as _REF
from .shapes import definitions

_GVK = "x-kubernetes-group-version-kind"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE, _VERSION = "Kuota", "v1.34.0"
_WRITE_PARAMETERS = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}


class OpenApi:
    """The documents of a registry, created on demand and cached while it does not change."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._edition = -1
        self._documents: dict[str, bytes] = {}

    def index(self) -> Json:
        """The index of documents. The hash in a URL changes with the content."""
        self._refresh()
        paths = {}
        for group, versions in self._kinds.by_group().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha256(self._document(path)).hexdigest()[:32].upper()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def document(self, path: str) -> bytes | None:
        """The document of "api/v1" or "apis/GROUP/VERSION"; None if it is not served."""
        self._refresh()
        group, version = _group_version(path)
        if version not in self._kinds.by_group().get(group, {}):
            return None
        return self._document(path)

    def _refresh(self) -> None:
        if self._edition != self._kinds.edition:
            self._edition = self._kinds.edition
            self._documents.clear()

    def _document(self, path: str) -> bytes:
        if path not in self._documents:
            group, version = _group_version(path)
            kinds = self._kinds.by_group()[group][version]
            self._documents[path] = msgspec.json.encode(_document(kinds, version))
        return self._documents[path]


def _group_version(path: str) -> tuple[str, str]:
    """Group and version in a path such as "apis/batch/v1"; ("", "") for other paths."""
    parts = path.strip("/").split("/")
    if len(parts) == 2 and parts[0] == "api":
        return "", parts[1]
    if len(parts) == 3 and parts[0] == "apis" and parts[1]:
        return parts[1], parts[2]
    return "", ""


def _document(kinds: list[Kind], version: str) -> Json:
    paths: Json = {}
    schemas: Json = {}
    words = ShapeDescriptions()
    for kind in kinds:
        served = kind.version(version)
        if served is not None:
            paths |= _paths(kind, served)
            schemas |= _schemas(kind, served, words)
    reached = {name: words.described(name, each) for name, each in _reached(schemas).items()}
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": paths,
        "components": {"schemas": schemas | reached},
    }


def component(kind: Kind, version: str) -> str:
    """The name of the schema of a kind in its document."""
    backwards = ".".join(reversed((kind.group or "core").split(".")))
    return f"{backwards}.{version}.{kind.kind}"


def _schemas(kind: Kind, version: Version, words: ShapeDescriptions) -> Json:
    name = component(kind, version.name)
    schema = words.described(version.shape, version.schema)
    said = schema.get("description") or f"{kind.kind} of {kind.api_version(version.name)}."
    gvk = {_GVK: [_gvk(kind, version.name, kind.kind)]}
    item = schema | {"description": said} | gvk
    listing = {
        "type": "object",
        "description": f"{kind.listing()} is a list of {kind.kind}.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"resourceVersion": {"type": "string"}}},
            "items": {"type": "array", "items": {"$ref": _REF + name}},
        },
        "required": ["items"],
        _GVK: [_gvk(kind, version.name, kind.listing())],
    }
    if not kind.kept:
        return {name: item}
    return {name: item, f"{name}List": listing}


def _paths(kind: Kind, version: Version) -> Json:
    root = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
    collection = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    collection = f"{collection}/{kind.plural}"
    paths: Json = {collection: _collection(kind, version)}
    if kind.kept:
        paths[f"{collection}/{{name}}"] = _item(kind, version)
        for below in ("status", "scale"):
            if below in kind.subresources:
                paths[f"{collection}/{{name}}/{below}"] = _item(kind, version, delete=False)
    return paths


def _collection(kind: Kind, version: Version) -> Json:
    operations = {"post": _operation(kind, version, "post", _WRITE_PARAMETERS)}
    if kind.kept:
        operations["get"] = _operation(kind, version, "list", {})
    return operations


def _item(kind: Kind, version: Version, *, delete: bool = True) -> Json:
    patch = _operation(kind, version, "patch", {**_WRITE_PARAMETERS, "force": "boolean"})
    media = [*_PATCHES, *((_STRATEGIC,) if kind.strategic else ()), *_APPLY]
    patch["requestBody"] = {"content": {each: {"schema": {"type": "object"}} for each in media}}
    operations = {
        "get": _operation(kind, version, "get", {}),
        "put": _operation(kind, version, "put", _WRITE_PARAMETERS),
        "patch": patch,
    }
    if delete:
        operations["delete"] = _operation(kind, version, "delete", {"dryRun": "string"})
    return operations


def _operation(kind: Kind, version: Version, action: str, parameters: dict[str, str]) -> Json:
    schema = {"$ref": _REF + component(kind, version.name)}
    listed = [
        {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}
        for name, type_ in parameters.items()
    ]
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    return {
        "operationId": f"{action}{kind.group.title().replace('.', '')}{version.name}{kind.kind}",
        "parameters": listed,
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        _GVK: _gvk(kind, version.name, kind.kind),
    }


def _gvk(kind: Kind, version: str, name: str) -> Json:
    return {"group": kind.group, "version": version, "kind": name}


def _reached(schemas: Json) -> Json:
    """The types that the schemas refer to, directly or indirectly."""
    known, found = definitions(), {}
    waiting = list(_references(schemas))
    while waiting:
        name = waiting.pop()
        if name not in found and name in known:
            found[name] = known[name]
            waiting.extend(_references(known[name]))
    return found


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for each in node for name in _references(each)]
    if not isinstance(node, dict):
        return []
    own = [str(node["$ref"]).removeprefix(_REF)] if isinstance(node.get("$ref"), str) else []
    return own + [name for each in node.values() for name in _references(each)]


def empty_document(accept: str) -> Response:
    """The empty OpenAPI v2 document, in the requested format.

    kubectl validates the items of a `kind: List` with this document and accepts unknown kinds. The
    server then validates each item like any other object.
    """
    if _PROTOBUF in accept.replace("@", "."):
        return Response(200, _protobuf(), _PROTOBUF)
    about = {"title": _TITLE, "version": _VERSION}
    return answered({"swagger": "2.0", "info": about, "paths": {}, "definitions": {}})


def _protobuf() -> bytes:
    """Field 1 is the version of the form, 2 the info, of which 1 is the title and 2 the version."""
    about = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    return _field(1, b"2.0") + _field(2, about) + _field(8, b"") + _field(9, b"")


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128  # so that its length is one byte
    return bytes([number << 3 | 2, len(content)]) + content
