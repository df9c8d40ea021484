# SPDX-License-Identifier: Apache-2.0
"""The members of a composed job, counted by what a pass over the job depends on.

A pass over a group of a thousand Pods reads a few counters instead of a thousand Pods. Only members
that a pass writes are read. A cache updates the members of a job as its objects change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Generic, NamedTuple, TypeVar

from kuota.api.base import Json, Key
from kuota.api.rules.report import child, text

T = TypeVar("T", bound=Hashable)

Identity = tuple[str, str]
"""Name and UID."""
_Place = tuple[float, Identity]
"""Members are ordered by the time of their creation, then by name."""


class Member(NamedTuple, Generic[T]):
    """A member: its identity, when it was created, and what a pass depends on."""

    key: Key
    uid: str
    created_s: float
    traits: T

    @property
    def identity(self) -> Identity:
        return self.key.name, self.uid


class Members(Generic[T]):
    """The members of one job, which are in one namespace, from the oldest to the newest.

    `read` returns the object of a member. The members change with the objects, so nothing keeps
    them across an `await`.
    """

    def __init__(self, namespace: str, read: Callable[[Key], Json | None]) -> None:
        self._namespace = namespace
        self._read = read
        self._known: dict[Identity, tuple[T, _Place]] = {}
        self._by_traits: dict[T, list[_Place]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Json]:
        """Yield the object of every member, in order."""
        return iter(self.where(_every))

    def put(self, member: Member[T]) -> None:
        """Add a member, or replace its traits."""
        identity = member.identity
        self.drop(identity)
        place = (member.created_s, identity)
        self._known[identity] = (member.traits, place)
        insort(self._by_traits.setdefault(member.traits, []), place)

    def drop(self, identity: Identity) -> None:
        """Remove a member, if it is one."""
        traits, place = self._known.pop(identity, (None, None))
        if traits is None or place is None:
            return
        places = self._by_traits[traits]
        del places[bisect_left(places, place)]
        if not places:
            del self._by_traits[traits]

    def tally(self) -> Iterator[tuple[T, int]]:
        """Yield the traits that members have, and how many have them."""
        return ((traits, len(places)) for traits, places in self._by_traits.items())

    def count(self, which: Callable[[T], bool]) -> int:
        return sum(count for traits, count in self.tally() if which(traits))

    def some(self, which: Callable[[T], bool]) -> bool:
        return any(map(which, self._by_traits))

    def all(self, which: Callable[[T], bool]) -> bool:
        return all(map(which, self._by_traits))

    def keys(self) -> list[Key]:
        return [self._key(place) for place in self._places(_every)]

    def identities(self) -> Collection[Identity]:
        return self._known.keys()

    def where(self, which: Callable[[T], bool]) -> list[Json]:
        """Return the objects of the members with such traits, in order."""
        return self._objects(self._places(which))

    def first(self, which: Callable[[T], bool] | None = None) -> Json | None:
        """Return the object of the oldest member, or of the oldest one with such traits."""
        wanted = which or _every
        oldest = (places[0] for traits, places in self._by_traits.items() if wanted(traits))
        found = min(oldest, default=None)
        return None if found is None else self._read(self._key(found))

    def others(self, known: AbstractSet[object]) -> list[Json]:
        """Return the objects of the members that are not among these, in order."""
        return self._objects(sorted(self._known[each][1] for each in self._known.keys() - known))

    def only(self, which: Callable[[T], bool]) -> Members[T]:
        """Return the members with such traits."""
        return self if self.all(which) else self._copy(self._places(which))

    def without(self, gone: Iterable[Json]) -> Members[T]:
        """Return all but these members."""
        left_out = {identity_of(each) for each in gone}
        if not left_out:
            return self
        return self._copy(each for each in self._places(_every) if each[1] not in left_out)

    def _copy(self, places: Iterable[_Place]) -> Members[T]:
        found = Members[T](self._namespace, self._read)
        for place in places:
            traits = self._known[place[1]][0]
            found._known[place[1]] = (traits, place)
            found._by_traits.setdefault(traits, []).append(place)
        return found

    def _places(self, which: Callable[[T], bool]) -> list[_Place]:
        chosen = (places for traits, places in self._by_traits.items() if which(traits))
        return sorted(place for places in chosen for place in places)

    def _key(self, place: _Place) -> Key:
        return Key(self._namespace, place[1][0])

    def _objects(self, places: Iterable[_Place]) -> list[Json]:
        found = (self._read(self._key(place)) for place in places)
        return [each for each in found if each is not None]


def identity_of(obj: Json) -> Identity:
    """Return name and UID of an object."""
    meta = child(obj, "metadata")
    return text(meta.get("name")), text(meta.get("uid"))


def _every(traits: object) -> bool:
    return True
