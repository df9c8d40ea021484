# SPDX-License-Identifier: Apache-2.0
"""The fields of Kubernetes' own kinds, as JSON schemas that name each other.

`shapes.json` has one table for each type (written by scripts/shapes.py): field names, a "!" after
a required one, and types: a scalar, another type, "[]" before the type of a list's items, "{}"
before that of a map's values. What that source does not tell is added here: which maps hold
quantities, which lists are merged by which key, which fields may be a number or a name.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from kuota.api.base import Json
from kuota.api.structure import Compiler

PREFIX = "io.k8s."
_REF = "#/components/schemas/"

_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "quantity": {"type": "string", "format": "quantity"},
    "port": {"type": "string", "format": "int-or-string"},
}

_QUANTITIES = {
    "ContainerStatus": ("allocatedResources",),
    "EmptyDirVolumeSource": ("sizeLimit",),
    "LimitRangeItem": ("default", "defaultRequest", "max", "maxLimitRequestRatio", "min"),
    "NodeStatus": ("allocatable", "capacity"),
    "Overhead": ("podFixed",),
    "PodSpec": ("overhead",),
    "PodStatus": ("allocatedResources",),
    "ResourceFieldSelector": ("divisor",),
    "ResourceQuotaSpec": ("hard",),
    "ResourceQuotaStatus": ("hard", "used"),
    "ResourceRequirements": ("limits", "requests"),
    "VolumeResourceRequirements": ("limits", "requests"),
}
_PORTS = {"HTTPGetAction": "port", "TCPSocketAction": "port", "ServicePort": "targetPort"}


class Merge(msgspec.Struct, frozen=True):
    """How a list is merged: by the `keys` of its items, or as a set when there are none.

    `patch` is the one key that strategic merge patches go by, `retain` says that an item lists the
    fields it keeps, `applied` that server-side apply merges too.
    """

    keys: tuple[str, ...] = ()
    patch: str = ""
    retain: bool = False
    applied: bool = True


def _by(key: str, *more: str, retain: bool = False, applied: bool = True) -> Merge:
    return Merge((key, *more), key, retain, applied)


_CONTAINER = {
    "env": _by("name"),
    "ports": _by("containerPort", "protocol"),
    "volumeDevices": _by("devicePath"),
    "volumeMounts": _by("mountPath"),
}
LISTS: dict[str, dict[str, Merge]] = {
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "CustomResourceDefinitionStatus": {"conditions": Merge(("type",))},
    "JobStatus": {"conditions": _by("type", applied=False)},
    "NamespaceStatus": {"conditions": _by("type")},
    "NodeSpec": {"podCIDRs": Merge()},
    "NodeStatus": {"addresses": _by("type"), "conditions": _by("type")},
    "ObjectMeta": {"finalizers": Merge(), "ownerReferences": _by("uid")},
    "PodSpec": {
        "containers": _by("name"),
        "ephemeralContainers": _by("name"),
        "hostAliases": _by("ip"),
        "imagePullSecrets": _by("name"),
        "initContainers": _by("name"),
        "resourceClaims": _by("name", retain=True),
        "schedulingGates": _by("name"),
        "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
        "volumes": _by("name", retain=True),
    },
    "PodStatus": {
        "conditions": _by("type"),
        "podIPs": _by("ip"),
        "resourceClaimStatuses": _by("name", retain=True),
    },
    "ResourceRequirements": {"claims": Merge(("name",))},
    "ServiceAccount": {"secrets": _by("name")},
    "ServiceSpec": {"ports": _by("port", "protocol")},
    "ServiceStatus": {"conditions": _by("type")},
}


@cache
def definitions() -> dict[str, Json]:
    """The schema of every type, by the name that a reference ends in. Not to be changed."""
    text = resources.files(__package__).joinpath("shapes.json").read_bytes()
    tables: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return {PREFIX + name: _object(name, fields) for name, fields in tables.items()}


@cache
def compiler() -> Compiler:
    """Compiles schemas that may refer to these types."""
    return Compiler(definitions)


def reference(name: str) -> Json:
    """A schema that stands for the type of that name."""
    return {"$ref": _REF + PREFIX + name}


def resolved(schema: Json) -> Json:
    """The schema itself, where the given one only refers to it."""
    if (only := schema.get("allOf")) and "type" not in schema:
        schema = only[0]
    found = schema.get("$ref")
    return definitions()[found.removeprefix(_REF)] if found is not None else schema


def _object(name: str, fields: dict[str, str]) -> Json:
    properties = {
        field.rstrip("!"): _field(name, field.rstrip("!"), type_) for field, type_ in fields.items()
    }
    schema: Json = {"type": "object", "properties": properties}
    required = [field[:-1] for field in fields if field.endswith("!")]
    return schema | {"required": required} if required else schema


def _field(owner: str, field: str, type_: str) -> Json:
    if field in _QUANTITIES.get(owner, ()):
        type_ = type_.replace("string", "quantity")
    if _PORTS.get(owner) == field:
        type_ = "port"
    return _schema(type_) | _words(LISTS.get(owner, {}).get(field))


def _schema(type_: str) -> Json:
    if type_.startswith("[]"):
        return {"type": "array", "items": _schema(type_[2:])}
    if type_.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(type_[2:])}
    return _SCALARS[type_] if type_ in _SCALARS else {"allOf": [reference(type_)]}


def _words(merge: Merge | None) -> Json:
    if merge is None:
        return {}
    words: Json = {}
    if merge.patch or not merge.keys:
        words["x-kubernetes-patch-strategy"] = "merge,retainKeys" if merge.retain else "merge"
    if merge.patch:
        words["x-kubernetes-patch-merge-key"] = merge.patch
    if merge.applied:
        words["x-kubernetes-list-type"] = "map" if merge.keys else "set"
        words |= {"x-kubernetes-list-map-keys": list(merge.keys)} if merge.keys else {}
    return words
