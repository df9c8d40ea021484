# SPDX-License-Identifier: Apache-2.0
"""Random objects that their structural schema accepts, and random changes of them.

The values come from small pools, so that fields often agree with each other and often do not.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kuota.api.base import Json

_TIME = "2026-01-02T03:04:05Z"
_HOSTNAME = "kubernetes.io/hostname"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "", "Never")
_TEXTS = {
    "conditions[].type": ("QuotaReserved", "Admitted"),
    "conditions[].status": ("True", "True", "False"),
    "levels[].nodeLabel": ("rack", "block", _HOSTNAME),
    "tolerations[].operator": ("Equal", "Exists", "", "In"),
    "tolerations[].effect": _EFFECTS,
    "tolerations[].value": ("", "a"),
    "tolerations[].key": ("", "a"),
    "nodeTaints[].effect": _EFFECTS,
    "priorityClassName": ("a", "b"),
}


class Objects:
    """A source of objects. Equal seeds give equal objects."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def new(self, schema: Json, kind: str, version: str) -> Json:
        body = self._object(schema, "")
        return body | {
            "apiVersion": f"kueue.x-k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": "x"},
        }

    def changed(self, schema: Json, obj: Json) -> Json:
        """The object with a few fields added, removed or replaced, still valid."""
        return {**self._changed(schema, obj, ""), "metadata": {"name": "x"}}

    def _changed(self, schema: Json, value: Any, path: str) -> Any:
        if isinstance(value, dict) and "properties" in schema:
            return self._changed_object(schema, value, path)
        if isinstance(value, list) and "items" in schema and self._random.random() < 0.8:
            items = [self._changed(schema["items"], each, f"{path}[]") for each in value]
            return _distinct(schema, items)
        return value if self._random.random() < 0.6 else self._value(schema, path)

    def _changed_object(self, schema: Json, value: Json, path: str) -> Json:
        result: Json = {}
        for name, below in schema["properties"].items():
            at = f"{path}.{name}" if path else name
            if at in ("apiVersion", "kind", "metadata"):
                result |= {name: value[name]} if name in value else {}
            elif name in value and (name in schema.get("required", ()) or self._often()):
                result[name] = self._changed(below, value[name], at)
            elif name not in value and not self._often():
                result[name] = self._value(below, at)
        return result

    def _often(self) -> bool:
        return self._random.random() < 0.85

    def _value(self, schema: Json, path: str) -> Any:
        if "enum" in schema:
            return self._text(path) or self._random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice((1, "2", "500m"))
        match schema["type"]:
            case "object":
                return self._object(schema, path)
            case "array":
                return self._list(schema, path)
            case "integer":
                least = schema.get("minimum", 0)
                return self._random.randint(least, min(schema.get("maximum", least + 3), least + 3))
            case "boolean":
                return self._random.random() < 0.5
        return _TIME if schema.get("format") == "date-time" else self._string(schema, path)

    def _string(self, schema: Json, path: str) -> str:
        chosen = self._text(path)
        return self._random.choice(("a", "b")) if chosen is None else chosen

    def _text(self, path: str) -> str | None:
        for suffix, texts in _TEXTS.items():
            if path.endswith(suffix):
                return self._random.choice(texts)
        return None

    def _object(self, schema: Json, path: str) -> Json:
        if "additionalProperties" in schema:
            keys = self._random.sample(("a", "b"), self._random.randint(0, 2))
            return {key: self._value(schema["additionalProperties"], f"{path}{{}}") for key in keys}
        result = {}
        for name, below in schema.get("properties", {}).items():
            at = f"{path}.{name}" if path else name
            always = name in schema.get("required", ()) or at in ("spec", "status")
            if at != "metadata" and (always or self._random.random() < 0.6):
                result[name] = self._value(below, at)
        return result

    def _list(self, schema: Json, path: str) -> list[Any]:
        least = schema.get("minItems", 0)
        size = self._random.randint(least, min(schema.get("maxItems", 3), least + 2))
        items = [self._value(schema["items"], f"{path}[]") for _ in range(size)]
        return _distinct(schema, items)


def _distinct(schema: Json, items: list[Any]) -> list[Any]:
    """The items without those that a map or a set may not repeat."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if not keys and schema.get("x-kubernetes-list-type") != "set":
        return items
    result: dict[Any, Any] = {}
    for each in items:
        name = tuple(each.get(key, "main") for key in keys) if keys else each
        result.setdefault(name, each)
    return list(result.values())
