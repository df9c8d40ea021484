# SPDX-License-Identifier: Apache-2.0
"""Rows that are shared by viewers with different permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

from dashboard.test_visible import MINE, SECRET, World
from kuota.api.base import Key
from kuota.dashboard.feed import Feed
from kuota.dashboard.rows import Rows
from kuota.dashboard.scopes import EVERYTHING, Scope
from kuota.view.observed import ObservedState


class FakeFeed:
    """Has the objects of a world, which do not change."""

    def __init__(self, state: ObservedState) -> None:
        self.state = state
        self.on_rows: list[Callable[[Iterable[Key]], None]] = []


def _seen(world: World, key: Key, scope: Scope) -> bytes:
    rows = Rows(cast(Feed, FakeFeed(world.observed)))
    asyncio.run(rows.refresh())
    row = rows.get(key)
    assert row is not None
    return row.seen_by(scope)


def test_a_preemptor_is_named_only_to_those_who_may_read_it() -> None:
    world = World([(False, "preempted", 1, False), (True, "admitted", 0, False)])
    mine = frozenset({MINE})
    key = Key(MINE, f"{MINE}-w0")
    assert b"secret" in _seen(world, key, EVERYTHING)
    assert b"secret" not in _seen(world, key, Scope(mine, mine, mine, mine))
    assert SECRET.encode() in _seen(world, key, Scope(mine | {SECRET}, mine, mine, mine))


def test_what_pods_tell_is_shown_only_to_those_who_may_read_pods() -> None:
    world = World([(False, "finished", 0, False)])
    key = Key(MINE, f"{MINE}-w0")
    workload = world.observed.workloads[key]
    failed = {"type": "Finished", "status": "True", "reason": "Failed", "message": "it failed"}
    world.observed.put(workload | {"status": {"conditions": [failed]}})
    pod = world.observed.objects["Pod"][Key(MINE, f"{key.name}-pod")]
    ended = {"name": "c", "state": {"terminated": {"exitCode": 1, "message": "of the pod"}}}
    world.observed.put(pod | {"status": {"phase": "Failed", "containerStatuses": [ended]}})
    assert b"of the pod" in _seen(world, key, EVERYTHING)
    shown = _seen(world, key, Scope(None, frozenset(), None, None))
    assert b"of the pod" not in shown
    assert b"it failed" in shown
