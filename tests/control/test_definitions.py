# SPDX-License-Identifier: Apache-2.0
"""Informers learn that the definition of their kind was installed."""

from __future__ import annotations

import asyncio
from typing import Any

from control.fake_api import FakeApi
from kube.virtual_time import VirtualClock, run
from kuota.api.base import Json, Key
from kuota.control.definitions import Definitions
from kuota.kube.informer import Informer
from kuota.kube.resources import CRDS, WORKLOADS


class Announced(Informer[Json]):
    """An informer that counts announcements."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.announcements = 0

    def announce(self) -> None:
        self.announcements += 1


def _definition(name: str) -> Json:
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2]},
    }


def test_an_informer_is_told_of_changes_of_its_definition_but_not_of_its_removal() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = FakeApi(clock)
        informer = Announced(api, WORKLOADS, clock=clock)
        task = asyncio.create_task(Definitions(api, clock, [informer]).run())
        seen = []
        for definition in (_definition("widgets.example.com"), _definition(WORKLOADS.name)):
            await api.apply(definition)
            await clock.sleep(1)
            seen.append(informer.announcements)
        await api.patch(CRDS, Key("", WORKLOADS.name), {"metadata": {"labels": {"a": "b"}}})
        await clock.sleep(1)
        seen.append(informer.announcements)
        await api.delete(CRDS, Key("", WORKLOADS.name))
        await clock.sleep(1)
        seen.append(informer.announcements)
        assert [0, 1, 2, 2] == seen
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, story())
