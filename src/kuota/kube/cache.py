# SPDX-License-Identifier: Apache-2.0
"""What an informer believes: the last state seen of each object, and indexes over them.

Every change is told to the observers as (old, new), with None for "not there". An object that
was deleted and made again under the same name is told as both, whatever the server's order of
words: it is another object. Objects that hardly anybody asks for any more can be kept packed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kuota.api.base import Json, Key

from .packing import Packer
from .resources import key_of

T = TypeVar("T")

Decode = Callable[[Json], T]
Observer = Callable[[T | None, T | None], None]
Indexer = Callable[[T], Iterable[str]]

_log = logging.getLogger(__name__)


class _Entry(NamedTuple, Generic[T]):
    """The value, or, of a packed one, None and what to make it from."""

    value: T | None
    uid: str
    revision: str
    packed: bytes = b""


def never_packed(value: object) -> bool:
    return False


class Cache(Generic[T]):
    """Objects by key. Values are shared with every reader: they are not to be changed.

    Values that `packs` is true of are packed, and made anew each time they are asked for.
    """

    def __init__(
        self,
        decode: Decode[T],
        indexers: Mapping[str, Indexer[T]],
        packs: Callable[[T], bool] = never_packed,
    ) -> None:
        self._decode = decode
        self._packs = packs
        self._packer = Packer()
        self._entries: dict[Key, _Entry[T]] = {}
        self._observers: list[Observer[T]] = []
        self._indexers = dict(indexers)
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in indexers}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Key) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else self._value(entry)

    def revision(self, key: Key) -> str | None:
        """The resourceVersion of the object, None when there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.revision

    def keys(self) -> Collection[Key]:
        return self._entries.keys()

    def values(self) -> Iterator[T]:
        """Every object, in the order of their first sight."""
        return (self._value(entry) for entry in self._entries.values())

    def indexed(self, index: str, word: str) -> list[T]:
        """The objects for which the indexer of that name gives that word."""
        keys = self._indexes[index].get(word, ())
        return [self._value(self._entries[key]) for key in keys]

    def observe(self, observer: Observer[T]) -> None:
        """Tell the observer of every change from now on, and first of all that is there."""
        self._observers.append(observer)
        for entry in list(self._entries.values()):
            _tell(observer, None, self._value(entry))

    def put(self, obj: Json) -> Key:
        """Believe that this is the object's state. The same revision again is no change."""
        key = key_of(obj)
        metadata = obj["metadata"]
        uid, revision = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
        before = self._entries.get(key)
        if before is not None and before.revision == revision and before.uid == uid:
            return key
        try:
            value = self._decode(obj)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as error:
            # One object that nobody can read must not hide the others.
            _log.error("%s %s cannot be read, and is ignored: %s", obj.get("kind"), key, error)
            self.drop(key)
            return key
        if before is not None and before.uid != uid:
            self.drop(key)
            before = None
        old = None if before is None else self._value(before)
        self._entries[key] = (
            _Entry(None, uid, revision, self._packer.pack(obj))
            if self._packs(value)
            else _Entry(value, uid, revision)
        )
        self._change(key, old, value)
        return key

    def pack(self, key: Key, obj: Json) -> None:
        """Keep it packed until it changes; `obj` is what its value can be made from."""
        entry = self._entries.get(key)
        if entry is not None and not entry.packed:
            self._entries[key] = _Entry(None, entry.uid, entry.revision, self._packer.pack(obj))

    def drop(self, key: Key) -> None:
        """Believe that there is no such object."""
        before = self._entries.pop(key, None)
        if before is not None:
            self._change(key, self._value(before), None)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Believe that there is nothing besides these."""
        for key in [each for each in self._entries if each not in keys]:
            self.drop(key)

    def _value(self, entry: _Entry[T]) -> T:
        if entry.packed:
            return self._decode(self._packer.unpack(entry.packed))
        assert entry.value is not None
        return entry.value

    def _change(self, key: Key, old: T | None, new: T | None) -> None:
        for name, indexer in self._indexers.items():
            self._reindex(self._indexes[name], indexer, key, old, new)
        for observer in self._observers:
            _tell(observer, old, new)

    @staticmethod
    def _reindex(
        index: dict[str, dict[Key, None]],
        indexer: Indexer[T],
        key: Key,
        old: T | None,
        new: T | None,
    ) -> None:
        before = set() if old is None else set(indexer(old))
        after = [] if new is None else list(indexer(new))
        for word in before.difference(after):
            index[word].pop(key, None)
            if not index[word]:
                del index[word]
        for word in after:
            index.setdefault(word, {})[key] = None


def _tell(observer: Observer[T], old: T | None, new: T | None) -> None:
    try:
        observer(old, new)
    except Exception:
        # A fault in one observer must not cost the others their view of the world.
        _log.exception("an observer failed")
