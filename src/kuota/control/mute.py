# SPDX-License-Identifier: Apache-2.0
"""Workloads that have not said yet why they wait, by class, so that only they are looked at."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Key


class Mute:
    """Who has said nothing so far. Each is handed out once."""

    def __init__(self) -> None:
        self._by_class: dict[str, set[Key]] = {}
        self._class: dict[Key, str] = {}

    def put(self, key: Key, class_id: str) -> None:
        """Take note of one that waits, unless it is known already."""
        if class_id and key not in self._class:
            self._class[key] = class_id
            self._by_class.setdefault(class_id, set()).add(key)

    def drop(self, key: Key) -> None:
        """It has said something, has quota, or is gone."""
        class_id = self._class.pop(key, None)
        if class_id is not None:
            self._take(class_id, {key})

    def take(self, class_id: str, wanted: Callable[[Key], bool]) -> list[Key]:
        """Those of a class that are wanted, in the order of their names."""
        found = {key for key in self._by_class.get(class_id, ()) if wanted(key)}
        self._take(class_id, found)
        return sorted(found)

    def _take(self, class_id: str, keys: set[Key]) -> None:
        left = self._by_class.get(class_id)
        if left is not None:
            left -= keys
            if not left:
                del self._by_class[class_id]
