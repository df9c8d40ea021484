# SPDX-License-Identifier: Apache-2.0
"""Cached objects: the stored JSON, and the decoded value if it can be decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from kuota.api.base import Json, Key
from kuota.bridge.draft import StoredWorkload
from kuota.kube.informer import trimmed
from kuota.kube.resources import key_of

T = TypeVar("T")


class CachedObject(msgspec.Struct, Generic[T], frozen=True):
    """One object. `value` is None if it cannot be decoded; `fault` then says why."""

    key: Key
    json: Json
    value: T | None
    fault: str = ""

    @property
    def uid(self) -> str:
        return str(self.json["metadata"].get("uid") or "")

    @property
    def version(self) -> str:
        return str(self.json["metadata"].get("resourceVersion") or "")


def decoder_for(shape: type[T]) -> Callable[[Json], CachedObject[T]]:
    """Return a decoder that never raises: one invalid object must not hide the others."""

    def decode(obj: Json) -> CachedObject[T]:
        trimmed(obj)
        return _decoded(obj, lambda: msgspec.convert(obj, shape))

    return decode


def decode_workload(obj: Json) -> CachedObject[StoredWorkload]:
    trimmed(obj)
    return _decoded(obj, lambda: StoredWorkload.of(obj))


def _decoded(obj: Json, decode: Callable[[], T]) -> CachedObject[T]:
    try:
        return CachedObject(key_of(obj), obj, decode())
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        return CachedObject(key_of(obj), obj, None, str(error))
