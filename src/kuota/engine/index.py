# SPDX-License-Identifier: Apache-2.0
"""An index of members by group."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

G = TypeVar("G")
M = TypeVar("M")


class Index(Generic[G, M]):
    """Members by group. A member belongs to the groups of its last `put`."""

    def __init__(self) -> None:
        self._members: dict[G, dict[M, None]] = {}
        self._groups: dict[M, tuple[G, ...]] = {}

    def __contains__(self, group: object) -> bool:
        """Whether the group has members."""
        return group in self._members

    def put(self, member: M, groups: Iterable[G]) -> None:
        """Put the member into exactly these groups."""
        self.drop(member)
        found = tuple(dict.fromkeys(groups))
        if found:
            self._groups[member] = found
        for group in found:
            self._members.setdefault(group, {})[member] = None

    def drop(self, member: M) -> None:
        for group in self._groups.pop(member, ()):
            members = self._members[group]
            del members[member]
            if not members:
                del self._members[group]

    def of(self, group: G) -> Collection[M]:
        """Return the members of a group in insertion order. The result is read-only."""
        return self._members.get(group, {}).keys()
