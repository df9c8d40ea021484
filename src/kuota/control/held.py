# SPDX-License-Identifier: Apache-2.0
"""Objects as controllers hold them: the JSON that is stored, and what could be read of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from kuota.api.base import Json, Key
from kuota.bridge.draft import Seen
from kuota.kube.informer import trimmed
from kuota.kube.resources import key_of

T = TypeVar("T")


class Held(msgspec.Struct, Generic[T], frozen=True):
    """One object. `value` is None when it cannot be read, and `fault` says why."""

    json: Json
    value: T | None
    fault: str = ""

    @property
    def key(self) -> Key:
        return key_of(self.json)

    @property
    def uid(self) -> str:
        return str(self.json["metadata"].get("uid") or "")

    @property
    def version(self) -> str:
        return str(self.json["metadata"].get("resourceVersion") or "")


def holding(shape: type[T]) -> Callable[[Json], Held[T]]:
    """A decoder that never fails: one object that nobody can read must not hide the others."""

    def hold(obj: Json) -> Held[T]:
        trimmed(obj)
        return _held(obj, lambda: msgspec.convert(obj, shape))

    return hold


def hold_workload(obj: Json) -> Held[Seen]:
    trimmed(obj)
    return _held(obj, lambda: Seen.of(obj))


def _held(obj: Json, decode: Callable[[], T]) -> Held[T]:
    try:
        return Held(obj, decode())
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        return Held(obj, None, str(error))
