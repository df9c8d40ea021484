# SPDX-License-Identifier: Apache-2.0
"""A cache of the newest known state of each object of one kind, with indexes.

States arrive from lists, from the watch and from responses to writes, in any order. A
resourceVersion is a number that only increases, so an older state never replaces a newer one.

Every change is passed to the observers as (old, new), with None for "does not exist". An object
that was deleted and created again under the same name is a different object: observers see a
deletion and a creation. An observer that raises ends the process (`kuota.failures`). Objects that
are rarely read can be stored compressed.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from kuota.api.base import Json, Key
from kuota.failures import Fatal, report

from .resources import key_of

_LEVEL = 3
_RAW = -15
_MEMORY = 5
"""Parameters of zlib: the level, a raw stream with the largest window, and a low memory level."""


class Packer:
    """Compresses objects. Only the packer that packed an object can unpack it."""

    def __init__(self) -> None:
        self._alike = b""

    def pack(self, obj: Json) -> bytes:
        plain = msgspec.json.encode(obj)
        self._alike = self._alike or plain
        packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY, zdict=self._alike)
        return packing.compress(plain) + packing.flush()

    def unpack(self, packed: bytes) -> Json:
        plain = zlib.decompressobj(_RAW, zdict=self._alike).decompress(packed)
        obj: Json = msgspec.json.decode(plain)
        return obj


T = TypeVar("T")

Decode = Callable[[Json], T]
Observer = Callable[[T | None, T | None], None]
Indexer = Callable[[T], Iterable[str]]

_log = logging.getLogger(__name__)


class _Entry(NamedTuple, Generic[T]):
    """A value, or None and the compressed object from which the value is decoded."""

    value: T | None
    uid: str
    revision: str
    packed: bytes = b""


def never_packed(value: object) -> bool:
    return False


def revision_of(obj: Json) -> str:
    """Return the object's resourceVersion; "" if it has none."""
    return obj["metadata"].get("resourceVersion") or ""


def number(revision: str) -> int:
    """Return a resourceVersion for comparison. One that is not a number counts as the oldest."""
    return int(revision) if revision.isdigit() else 0


def _uid(obj: Json) -> str:
    return obj["metadata"].get("uid") or ""


class Cache(Generic[T]):
    """Objects by key. Values are shared by all readers and must not be changed.

    Values for which `packs` returns true are stored compressed and decoded at every read.
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
        """Return the object; None if it does not exist."""
        entry = self._entries.get(key)
        return None if entry is None else self._value(entry)

    def revision(self, key: Key) -> str | None:
        """Return the resourceVersion of the object; None if it does not exist."""
        entry = self._entries.get(key)
        return None if entry is None else entry.revision

    def add_index(self, name: str, indexer: Indexer[T]) -> None:
        """Add an index and maintain it. The index covers existing objects as well."""
        self._indexers[name] = indexer
        index = self._indexes[name] = {}
        for key, entry in self._entries.items():
            self._reindex(index, indexer, key, None, self._value(entry))

    def keys(self) -> Collection[Key]:
        return self._entries.keys()

    def values(self) -> Iterator[T]:
        """Yield every object, in the order in which they were first seen."""
        return (self._value(entry) for entry in self._entries.values())

    def indexed(self, index: str, word: str) -> list[T]:
        """Return the objects for which the named indexer yields this word."""
        keys = self._indexes[index].get(word, ())
        return [self._value(self._entries[key]) for key in keys]

    def words(self, index: str) -> Collection[str]:
        """Return the words that the named indexer yields for at least one object."""
        return self._indexes[index].keys()

    def observe(self, observer: Observer[T]) -> None:
        """Notify the observer of every existing object, and then of every change."""
        self._observers.append(observer)
        try:
            for entry in list(self._entries.values()):
                observer(None, self._value(entry))
        except Exception as error:
            _break(error)

    def put(self, obj: Json) -> Key:
        """Store the object and return its key. Does nothing if this or a newer state is stored."""
        key, uid, revision = key_of(obj), _uid(obj), revision_of(obj)
        before = self._entries.get(key)
        if before is not None:
            same = before.revision == revision and before.uid == uid
            if same or number(before.revision) > number(revision):
                return key
        try:
            value = self._decode(obj)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as error:
            # One object that cannot be decoded must not hide the others.
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

    def pack(self, obj: Json) -> None:
        """Store the object compressed until it changes. The value must be decodable from `obj`."""
        key = key_of(obj)
        entry = self._entries.get(key)
        if entry is not None and not entry.packed and entry.revision == revision_of(obj):
            self._entries[key] = _Entry(None, entry.uid, entry.revision, self._packer.pack(obj))

    def drop(self, key: Key) -> None:
        """Remove the object."""
        before = self._entries.pop(key, None)
        if before is not None:
            self._change(key, self._value(before), None)

    def deleted(self, obj: Json) -> None:
        """Remove an object whose deletion was reported, unless its name is in use again."""
        key = key_of(obj)
        known = self._entries.get(key)
        if known is None:
            return
        if known.uid == _uid(obj) or number(known.revision) <= number(revision_of(obj)):
            self.drop(key)

    def keep_only(self, keys: Collection[Key], revision: str) -> None:
        """Remove the objects that a complete list of this revision does not contain."""
        absent = [
            key
            for key, entry in self._entries.items()
            if key not in keys and number(entry.revision) <= number(revision)
        ]
        for key in absent:
            self.drop(key)

    def _value(self, entry: _Entry[T]) -> T:
        if entry.packed:
            return self._decode(self._packer.unpack(entry.packed))
        assert entry.value is not None
        return entry.value

    def _change(self, key: Key, old: T | None, new: T | None) -> None:
        try:
            for name, indexer in self._indexers.items():
                self._reindex(self._indexes[name], indexer, key, old, new)
            for observer in self._observers:
                observer(old, new)
        except Exception as error:
            _break(error)

    @staticmethod
    def _reindex(
        index: dict[str, dict[Key, None]],
        indexer: Indexer[T],
        key: Key,
        old: T | None,
        new: T | None,
    ) -> None:
        before = [] if old is None else list(indexer(old))
        after = [] if new is None else list(indexer(new))
        if before == after:
            return
        for word in set(before).difference(after):
            index[word].pop(key, None)
            if not index[word]:
                del index[word]
        for word in after:
            index.setdefault(word, {})[key] = None


def _break(error: Exception) -> NoReturn:
    """End the process: an observer's state is inconsistent, and nothing would correct it."""
    report("observer", error, "an observer of the API server's objects failed")
    raise Fatal("an observer of the API server's objects failed") from error
