# SPDX-License-Identifier: Apache-2.0
"""The cache of an informer, and its size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Json, Key
from kuota.kube.cache import Cache, Packer

KEY = Key("team", "a")


def _object(revision: int, *, done: bool) -> Json:
    meta = {"namespace": "team", "name": "a", "uid": "u", "resourceVersion": str(revision)}
    return {"metadata": meta, "done": done, "words": ["x"]}


def _cache() -> Cache[Json]:
    return Cache(lambda obj: obj, {"words": lambda obj: obj["words"]}, lambda obj: obj["done"])


def test_a_packed_object_reads_unchanged_and_shares_no_state() -> None:
    cache, observed = _cache(), list[tuple[Json | None, Json | None]]()
    cache.observe(lambda old, new: observed.append((old, new)))
    cache.put(_object(1, done=False))
    cache.put(_object(2, done=True))
    assert _object(2, done=True) == cache.get(KEY)
    assert cache.get(KEY) is not cache.get(KEY)
    assert [_object(2, done=True)] == list(cache.values()) == cache.indexed("words", "x")
    cache.drop(KEY)
    assert [
        (None, _object(1, done=False)),
        (_object(1, done=False), _object(2, done=True)),
        (_object(2, done=True), None),
    ] == observed


def test_what_is_wanted_again_is_unpacked() -> None:
    cache = _cache()
    cache.put(_object(1, done=True))
    cache.put(_object(2, done=False))
    assert cache.get(KEY) is cache.get(KEY)


def test_late_observers_receive_packed_objects() -> None:
    cache, observed = _cache(), list[Json | None]()
    cache.put(_object(1, done=True))
    cache.observe(lambda old, new: observed.append(new))
    assert [_object(1, done=True)] == observed


def test_one_can_be_packed_later_on() -> None:
    cache = _cache()
    cache.put(_object(1, done=False))
    cache.pack(_object(1, done=False))
    assert _object(1, done=False) == cache.get(KEY)
    assert cache.get(KEY) is not cache.get(KEY)
    absent = _object(1, done=False)
    absent["metadata"]["name"] = "absent"
    cache.pack(absent)
    assert [KEY] == list(cache.keys())


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53)), min_size=1))
def test_packed_objects_come_back_as_they_were(some: list[Json]) -> None:
    packer = Packer()
    assert some == [packer.unpack(each) for each in [packer.pack(each) for each in some]]
