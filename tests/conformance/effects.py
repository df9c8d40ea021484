# SPDX-License-Identifier: Apache-2.0
"""Applies effects to recorded objects, as an API server does, without validation."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from kuota.api.merge_patch import merged
from kuota.bridge.effects import Create, Delete, Effect, Event, Patch, StatusPatch

from .case import Json


class Objects:
    """Objects by kind and name. One without finalizers goes when it is deleted."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self._by_name = {(e["kind"], e["metadata"]["name"]): copy.deepcopy(e) for e in objects}

    def of(self, kind: str, name: str) -> Json | None:
        return self._by_name.get((kind, name))

    def all(self, kind: str) -> list[Json]:
        return [each for (found, _), each in self._by_name.items() if found == kind]

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for each in effects:
            self._one(each)

    def _one(self, effect: Effect) -> None:
        at = (effect.kind.partition(".")[0], effect.key.name)
        match effect:
            case Create():
                self._by_name[at] = effect.object
            case Delete():
                self._delete(at)
            case StatusPatch():
                self._by_name[at] = merged(self._by_name[at], {"status": effect.status})
            case Patch():
                self._by_name[at] = merged(self._by_name[at], effect.body)
                self._let_go(at)
            case Event():
                pass

    def _delete(self, at: tuple[str, str]) -> None:
        if at in self._by_name:
            meta = self._by_name[at]["metadata"]
            meta.setdefault("deletionTimestamp", "2026-01-02T03:04:05Z")
            self._let_go(at)

    def _let_go(self, at: tuple[str, str]) -> None:
        meta = self._by_name[at]["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            del self._by_name[at]


def events_of(listed: Iterable[Any] | None) -> list[Json]:
    """Object, reason and type of every event, recorded or wanted, in order."""
    found = []
    for each in listed or ():
        if isinstance(each, Event):
            found.append(
                {
                    "namespace": each.key.namespace,
                    "name": each.key.name,
                    "reason": each.reason,
                    "type": "Warning" if each.warning else "Normal",
                }
            )
        elif not isinstance(each, Effect):
            found.append({name: each[name] for name in ("namespace", "name", "reason", "type")})
    return found
