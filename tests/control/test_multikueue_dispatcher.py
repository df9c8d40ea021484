# SPDX-License-Identifier: Apache-2.0
"""What the dispatcher remembers about Workloads between its passes."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import convert

from control.multikueue_groups import KEY, local
from control.test_multikueue_clusters import check, config
from control.virtual import VirtualClock, played
from kuota.api.base import Key
from kuota.api.kueue import AdmissionCheck, MultiKueueConfig
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event, Patch
from kuota.control.cached_object import CachedObject
from kuota.control.checks.multikueue import dispatcher as module
from kuota.control.checks.multikueue.dispatcher import REPEAT_S, Dispatcher
from kuota.control.checks.multikueue.group import GroupResult
from kuota.control.keyed_locks import KeyedLocks
from kuota.kube.errors import Unreachable

SAID = Event.about(KEY, "MultiKueue", "it is dispatched again", warning=True)


class Fixture:
    """A dispatcher, with everything that it reads and writes."""

    def __init__(self) -> None:
        self.stored: dict[Key, CachedObject[StoredWorkload]] = {}
        self.copies: set[Key] = set()
        self.group: object | None = None
        self.sent: list[list[Effect]] = []
        self.fails: list[Exception] = []
        workloads = SimpleNamespace(indexed=lambda *_: list(self.stored.values()))
        cache: Any = SimpleNamespace(workload=self.stored.get, workloads=workloads)
        sender: Any = SimpleNamespace(locks=KeyedLocks(), send=self._send)
        groups: Any = SimpleNamespace(
            index=self.copies, is_dispatched=lambda _: True, group=lambda *_, **__: self.group
        )
        unused: Any = None
        self.dispatcher = Dispatcher(cache, sender, VirtualClock(), unused, unused, groups)

    async def _send(self, effects: Iterable[Effect]) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.sent.append(list(effects))

    def store(self) -> None:
        stored = local()
        self.stored[KEY] = found = CachedObject(KEY, stored.json, stored)
        self.dispatcher._workload(None, found)

    def delete(self) -> None:
        self.dispatcher._workload(self.stored.pop(KEY), None)

    def remembered(self) -> list[str]:
        """The names of the attributes in which the Workload occurs."""
        kept = vars(self.dispatcher).items()
        return [name for name, value in kept if isinstance(value, set | dict) and KEY in value]


def test_a_deleted_workload_of_unknown_configuration_is_forgotten_without_copies() -> None:
    async def story() -> None:
        fixture = Fixture()
        fixture.store()
        await fixture.dispatcher.reconcile(KEY)
        assert fixture.remembered() == ["_known"]
        fixture.copies.add(KEY)
        fixture.delete()
        await fixture.dispatcher.reconcile(KEY)
        assert fixture.remembered() == ["_known", "_deleted"]
        fixture.copies.clear()
        await fixture.dispatcher.reconcile(KEY)
        assert fixture.remembered() == []

    played(story())


def test_an_event_is_recorded_once_also_after_a_failed_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "reconcile_group", lambda *_: GroupResult(first=(SAID,)))

    async def story() -> None:
        fixture = Fixture()
        fixture.store()
        fixture.group = SimpleNamespace(local=local(), deleted=False)
        fixture.fails = [Unreachable("the server restarts")]
        with pytest.raises(Unreachable):
            await fixture.dispatcher.reconcile(KEY)
        await fixture.dispatcher.reconcile(KEY)
        await fixture.dispatcher.reconcile(KEY)
        assert [each for each in fixture.sent if each] == [[SAID]]

    played(story())


def test_a_pass_that_has_to_continue_does_not_repeat_its_writes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Workload was deleted, and the watch has not delivered that yet."""
    written = Patch(key=KEY, resource_version="7", body={})
    monkeypatch.setattr(
        module, "reconcile_group", lambda *_: GroupResult(first=(written,), repeat=True)
    )

    async def story() -> None:
        fixture = Fixture()
        fixture.store()
        fixture.group = SimpleNamespace(local=local(), deleted=False)
        assert REPEAT_S == await fixture.dispatcher.reconcile(KEY)
        assert [[written]] == fixture.sent

    played(story())


def _check(config: str = "fleet", **status: object) -> CachedObject[AdmissionCheck]:
    json = check("elsewhere") | {"status": status}
    json["spec"]["parameters"]["name"] = config
    return CachedObject(Key("", "elsewhere"), json, convert(json, AdmissionCheck))


def _config(*clusters: str, **metadata: object) -> CachedObject[MultiKueueConfig]:
    json = config(*clusters)
    json["metadata"] |= metadata
    return CachedObject(Key("", "fleet"), json, convert(json, MultiKueueConfig))


def test_only_changes_of_checks_and_configurations_that_matter_cause_passes() -> None:
    async def story() -> None:
        fixture = Fixture()
        fixture.store()
        dispatcher = fixture.dispatcher

        async def passes() -> bool:
            found = len(dispatcher.queue) > 0
            if found:
                dispatcher.queue.done(await dispatcher.queue.get())
            return found

        assert await passes(), "the Workload is new"
        dispatcher._check(_check(), _check(conditions=[]))
        dispatcher._config(_config("a", "b"), _config("a", "b", labels={"x": "y"}))
        assert not await passes()
        dispatcher._check(_check(), _check("other"))
        assert await passes()
        dispatcher._check(_check(), None)
        assert await passes()
        dispatcher._config(_config("a", "b"), _config("b", "a"))
        assert await passes()
        dispatcher._config(None, _config("a"))
        assert await passes()

    played(story())
