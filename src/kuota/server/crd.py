# SPDX-License-Identifier: Apache-2.0
"""Validates CustomResourceDefinitions and derives the kind that one defines.

Versions are converted by changing the apiVersion only. A conversion webhook is accepted but never
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kuota.api import names
from kuota.api.base import Json
from kuota.api.faults import FieldError, invalid, required

from . import jsonpath
from .columns import Column, by_path, dig, listed, mapped, with_name
from .kinds import Kind, Scale, Version, preference
from .pod_faults import missing, unsupported
from .schemas import with_metadata

_ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NESTED = ("anyOf", "oneOf", "allOf")
_TYPES = ("object", "array", "string", "integer", "number", "boolean")


def fill_crd(crd: Json) -> None:
    """Set default names. Changes the object."""
    spec = crd.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    known = spec.get("names")
    if isinstance(known, dict) and isinstance(known.get("kind"), str):
        known.setdefault("singular", known["kind"].lower())
        known.setdefault("listKind", f"{known['kind']}List")
    for version in listed(spec.get("versions")):
        if dig(version, "schema", "openAPIV3Schema") is not None:
            version["schema"] = {"openAPIV3Schema": _said(version["schema"]["openAPIV3Schema"])}


def _said(schema: Any) -> Any:
    """The schema without null values."""
    if isinstance(schema, list):
        return [_said(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: each if name in ("default", "enum", "example") else _said(each)
        for name, each in schema.items()
        if each is not None
    }


def crd_faults(crd: Json) -> Iterator[FieldError]:
    spec = mapped(crd.get("spec"))
    known = mapped(spec.get("names"))
    for path, value in (
        ("spec.group", spec.get("group")),
        ("spec.names.plural", known.get("plural")),
        ("spec.names.kind", known.get("kind")),
    ):
        if not value:
            yield missing(path)
    wanted = f"{known.get('plural')}.{spec.get('group')}"
    if dig(crd, "metadata", "name") != wanted:
        message = f'must be spec.names.plural+"."+spec.group: {wanted}'
        yield invalid("metadata.name", dig(crd, "metadata", "name"), message)
    if spec.get("group"):
        for each in names.dns_subdomain(str(spec["group"])):
            yield invalid("spec.group", spec["group"], each)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield unsupported("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    yield from _version_faults(listed(spec.get("versions")))


def _version_faults(versions: list[Any]) -> Iterator[FieldError]:
    if not versions:
        yield required("spec.versions", "there must be a version")
        return
    if sum(1 for each in versions if dig(each, "storage")) != 1:
        message = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", None, message)
    for at, version in enumerate(versions):
        path = f"spec.versions[{at}]"
        for each in names.dns_label(str(dig(version, "name") or "")):
            yield invalid(f"{path}.name", dig(version, "name"), each)
        schema = dig(version, "schema", "openAPIV3Schema")
        if schema is None:
            yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from _schema_faults(schema, f"{path}.schema.openAPIV3Schema")
        yield from _path_faults(version, path)


def _path_faults(version: Json, path: str) -> Iterator[FieldError]:
    """Faults of invalid JSON paths."""
    for at, column in enumerate(listed(dig(version, "additionalPrinterColumns"))):
        yield from _unreadable(column.get("jsonPath"), f"{path}.additionalPrinterColumns[{at}]")
    scale = dig(version, "subresources", "scale")
    for field in ("specReplicasPath", "statusReplicasPath") if scale is not None else ():
        if not dig(scale, field):
            yield missing(f"{path}.subresources.scale.{field}")
        else:
            yield from _unreadable(dig(scale, field), f"{path}.subresources.scale.{field}")


def _unreadable(text: Any, path: str) -> Iterator[FieldError]:
    try:
        jsonpath.steps(str(text or ""))
    except jsonpath.PathError as error:
        yield invalid(path, text, str(error))


def _schema_faults(schema: Any, path: str) -> Iterator[FieldError]:
    """Faults of an invalid schema. All users of schemas rely on this check."""
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be an object")
        return
    if "$ref" in schema:
        yield invalid(f"{path}.$ref", schema["$ref"], "is not allowed in a structural schema")
    if "type" in schema and schema["type"] not in _TYPES:
        yield unsupported(f"{path}.type", schema["type"], _TYPES)
    for wanted, fits, words in _WORDS:
        for word in words.split():
            if schema.get(word) is not None and not fits(schema[word]):
                yield invalid(f"{path}.{word}", schema[word], f"must be {wanted}")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        yield invalid(f"{path}.properties", properties, "must be an object")
        return
    for name, each in properties.items():
        yield from _schema_faults(each, f"{path}.properties[{name}]")
    yield from _inner_faults(schema, path)


def _inner_faults(schema: Json, path: str) -> Iterator[FieldError]:
    if "items" in schema:
        yield from _schema_faults(schema["items"], f"{path}.items")
    values = schema.get("additionalProperties")
    if values is not None and not isinstance(values, bool):
        yield from _schema_faults(values, f"{path}.additionalProperties")
    if "not" in schema:
        yield from _schema_faults(schema["not"], f"{path}.not")
    for word in _NESTED:
        if word in schema and not isinstance(schema[word], list):
            yield invalid(f"{path}.{word}", schema[word], "must be a list")
            continue
        for at, each in enumerate(listed(schema.get(word))):
            yield from _schema_faults(each, f"{path}.{word}[{at}]")


# The keywords of a schema whose values are checked, by their required type.
_WORDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "a string",
        lambda value: isinstance(value, str),
        "description format pattern x-kubernetes-list-type",
    ),
    ("a list", lambda value: isinstance(value, list), "enum"),
    (
        "a number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "maxItems maxLength maxProperties maximum minItems minLength minProperties minimum "
        "multipleOf",
    ),
    (
        "true or false",
        lambda value: isinstance(value, bool),
        "nullable x-kubernetes-embedded-resource x-kubernetes-int-or-string "
        "x-kubernetes-preserve-unknown-fields",
    ),
    (
        "a list of strings",
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
        "required x-kubernetes-list-map-keys",
    ),
)


def kind_of(crd: Json) -> Kind:
    """The kind that a valid definition defines."""
    spec = crd["spec"]
    known, served = spec["names"], [each for each in spec["versions"] if each.get("served", True)]
    versions = sorted((_version(each) for each in served), key=lambda each: preference(each.name))
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    below = (
        *(("status",) if any(each.status for each in versions) else ()),
        *(("scale",) if any(each.scale for each in versions) else ()),
    )
    return Kind(
        group=spec["group"],
        plural=known["plural"],
        kind=known["kind"],
        singular=known.get("singular") or known["kind"].lower(),
        list_kind=known.get("listKind") or "",
        short_names=tuple(known.get("shortNames") or ()),
        categories=tuple(known.get("categories") or ()),
        versions=tuple(versions),
        stored=stored,
        namespaced=spec["scope"] == "Namespaced",
        subresources=below,
    )


def _version(version: Json) -> Version:
    schema = dig(version, "schema", "openAPIV3Schema") or _ANYTHING
    scale = dig(version, "subresources", "scale")
    warning = version.get("deprecated") and version.get("deprecationWarning")
    return Version(
        name=version["name"],
        schema=with_metadata(schema),
        columns=with_name([*_columns(version)]),
        status="status" in mapped(version.get("subresources")),
        scale=None if scale is None else _scale(scale),
        warnings=(str(warning),) if warning else (),
        selectable=tuple(
            str(dig(each, "jsonPath")) for each in listed(version.get("selectableFields"))
        ),
    )


def _columns(version: Json) -> Iterator[Column]:
    for each in listed(version.get("additionalPrinterColumns")):
        yield by_path(
            str(each.get("name") or ""),
            str(each.get("jsonPath") or ""),
            str(each.get("type") or "string"),
            wide=bool(each.get("priority")),
            description=str(each.get("description") or ""),
        )


def _scale(scale: Json) -> Scale:
    return Scale(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath") or "",
    )


def established(crd: Json, now: str) -> Json:
    """The definition with the status Established, which clients wait for."""
    spec = crd["spec"]
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    before = listed(dig(crd, "status", "storedVersions"))
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the kind is served", now),
    ]
    old = dig(crd, "status", "conditions")
    status = {
        "acceptedNames": spec["names"],
        "conditions": old or conditions,
        "storedVersions": before if stored in before else [*before, stored],
    }
    return crd | {"status": status}


def _condition(type_: str, reason: str, message: str, now: str) -> Json:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
