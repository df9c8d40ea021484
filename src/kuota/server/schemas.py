# SPDX-License-Identifier: Apache-2.0
"""Builds the structural schemas of kinds that are defined in code. Unknown fields are kept."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.descriptions import OBJECT

from .shapes import reference

STRING: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "format": "int32", "minimum": 0}
ANYTHING: Json = {"x-kubernetes-preserve-unknown-fields": True}


def object_of(*required: str, **properties: Json) -> Json:
    """The schema of an object with these fields and any others."""
    schema: Json = {"type": "object", "properties": properties, **ANYTHING}
    return schema | {"required": list(required)} if required else schema


def list_of(items: Json, most: int = 1000) -> Json:
    return {"type": "array", "items": items, "maxItems": most}


def map_of(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def with_metadata(schema: Json) -> Json:
    """A structural schema with object metadata, which CustomResourceDefinitions omit."""
    common = {
        name: {"type": "string", "description": OBJECT[name]} for name in ("apiVersion", "kind")
    }
    common["metadata"] = reference("ObjectMeta")
    return schema | {"type": "object", "properties": schema.get("properties", {}) | common}
