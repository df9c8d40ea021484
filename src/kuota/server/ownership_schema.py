# SPDX-License-Identifier: Apache-2.0
"""Which objects and lists are owned by part, and which are atomic.

Built-in kinds are described by `kuota.server.wire`, custom kinds by the structural schema of their
definition. If nothing is known, objects are owned by field and lists are atomic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from kuota.api.base import Json

from . import wire


class Structural(msgspec.Struct, frozen=True, gc=False):
    """A place in a custom kind, by its OpenAPI schema. `is_object`: it has object metadata.

    A place with an empty schema is one of which nothing is known.
    """

    schema: Json
    is_object: bool = False

    @property
    def atomic(self) -> bool:
        """Whether an object here is atomic."""
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """The keys of list items, () for a set of values, None for an atomic list."""
        match self.schema.get("x-kubernetes-list-type"):
            case "map":
                return tuple(self.schema.get("x-kubernetes-list-map-keys", ()))
            case "set":
                return ()
        return None

    def declares(self, name: str) -> bool:
        """Whether the name is a field of the type, rather than a key of a map."""
        if self.is_object and name in ("apiVersion", "kind", "metadata"):
            return True
        return name in self.schema.get("properties", ())

    def starts_with(self, name: str) -> bool:
        """Whether objects here always have this field, possibly empty."""
        return False

    def field(self, name: str) -> Schema:
        """The value under that name."""
        if self.is_object and name == "metadata":
            return Builtin("ObjectMeta")
        below = self.schema.get("properties", {}).get(name)
        return _structural(self.schema.get("additionalProperties") if below is None else below)

    def item(self) -> Schema:
        """Any item of the list."""
        return _structural(self.schema.get("items"))

    def default(self, key: str) -> Any:
        """The default of a missing key of a list item; None if the key is required."""
        items = self.schema.get("items", {})
        return items.get("properties", {}).get(key, {}).get("default")


class Builtin(msgspec.Struct, frozen=True, gc=False):
    """A place in a built-in kind: `type` is its message, or that of the items or values.

    See `Structural` for what the methods answer.
    """

    type: str
    many: str = ""
    atomic: bool = False
    list_keys: tuple[str, ...] | None = None

    def declares(self, name: str) -> bool:
        return not self.many and name in wire.message(self.type).by_name

    def starts_with(self, name: str) -> bool:
        found = None if self.many else wire.message(self.type).by_name.get(name)
        return found is not None and found.always_there

    def field(self, name: str) -> Schema:
        if self.many:
            return self.item()
        found = wire.message(self.type).by_name.get(name)
        if found is None or not (found.is_message or found.many):
            return UNKNOWN
        whole = not found.many and wire.message(found.type).atomic
        return Builtin(found.type, found.many, found.atomic or whole, found.list_keys)

    def item(self) -> Schema:
        if wire.is_message(self.type):
            return Builtin(self.type, atomic=wire.message(self.type).atomic)
        return UNKNOWN

    def default(self, key: str) -> Any:
        found = wire.message(self.type).by_name.get(key)
        return None if found is None else found.default


def _structural(schema: Any) -> Schema:
    if not isinstance(schema, dict) or not schema:
        return UNKNOWN
    return Structural(schema, bool(schema.get("x-kubernetes-embedded-resource")))


Schema = Builtin | Structural
"""The schema of one place in a document. Both classes have the same methods."""

UNKNOWN = Structural({})


@lru_cache(256)
def builtin_schema(api_version: str, kind: str) -> Schema | None:
    """That of a built-in kind, None for any other."""
    message = wire.message_of(api_version, kind)
    return None if message is None else Builtin(message.name)


def custom_schema(schema: Json) -> Schema:
    """That of a custom kind, from the `openAPIV3Schema` of one version of its definition."""
    return Structural(schema, is_object=True)
