# SPDX-License-Identifier: Apache-2.0
"""Informers learn that the definition of their kind was installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control.fake_api import FakeApi
from kube.virtual_time import VirtualClock, run
from kuota.api.base import Json, Key
from kuota.control.definitions import Definitions
from kuota.kube.client import Listing
from kuota.kube.errors import Forbidden
from kuota.kube.informer import Informer
from kuota.kube.resources import CRDS, WORKLOADS, Resource

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")


class Announced(Informer[Json]):
    """An informer that counts announcements."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.announcements = 0

    def announce(self) -> None:
        self.announcements += 1


class Recorded:
    """A recorder that keeps the object and the reason of each event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, regarding: Json, reason: str, note: str, **_: Any) -> None:
        self.events.append((regarding["metadata"]["name"], reason, note))


def _definition(name: str) -> Json:
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": name},
        "spec": {"group": name.partition(".")[2]},
    }


def test_the_absence_of_job_kinds_is_normal_while_definitions_can_be_watched() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = FakeApi(clock)
        job_sets, workloads = (
            Informer[Json](api, each, clock=clock) for each in (JOB_SETS, WORKLOADS)
        )
        definitions = Definitions(api, clock, [job_sets, workloads], Recorded())
        assert (True, False) == (job_sets.announces(), workloads.announces())
        definitions._definitions.error = Forbidden(403, "Forbidden", "no")
        assert not job_sets.announces()

    run(clock, story())


def test_an_informer_is_told_of_changes_of_its_definition_but_not_of_its_removal() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = FakeApi(clock)
        informer = Announced(api, WORKLOADS, clock=clock)
        task = asyncio.create_task(Definitions(api, clock, [informer], Recorded()).run())
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


def _crd(version: str, **schema: Any) -> Json:
    served = {"name": version, "served": True, "schema": {"openAPIV3Schema": schema}}
    made = _definition(JOB_SETS.name)
    names = {"plural": JOB_SETS.plural, "kind": JOB_SETS.kind}
    return made | {"spec": {"group": JOB_SETS.group, "names": names, "versions": [served]}}


@pytest.mark.parametrize(
    ("definition", "reason", "words"),
    [
        (_crd("v1alpha1", properties={"status": {}}), "VersionNotServed", "serves v1alpha1"),
        (_crd("v1alpha2", properties={"spec": {}}), "StatusMissing", "has no status"),
        (_crd("v1alpha2", properties={"status": {}}), "", ""),
        (_crd("v1alpha2", **{"x-kubernetes-preserve-unknown-fields": True}), "", ""),
        (_definition(JOB_SETS.name), "VersionNotServed", "serves none"),
    ],
)
def test_a_definition_with_which_jobs_cannot_be_queued_gets_a_reason(
    definition: Json, reason: str, words: str
) -> None:
    clock, recorded = VirtualClock(), Recorded()

    async def story() -> None:
        api = FakeApi(clock)
        informer = Announced(api, JOB_SETS, clock=clock)
        task = asyncio.create_task(Definitions(api, clock, [informer], recorded).run())
        await api.apply(definition)
        await clock.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(clock, story())
    expected = [(JOB_SETS.name, reason)] if reason else []
    assert expected == [each[:2] for each in recorded.events]
    assert all(words in each[2] for each in recorded.events)


class _Unselective(FakeApi):
    """An API server that fails to list chosen objects."""

    async def list(self, resource: Resource, *args: Any, **options: Any) -> Listing:
        if options.get("field_selector"):
            raise Forbidden(403, "Forbidden", "no")
        return await super().list(resource, *args, **options)


def test_no_retry_of_a_check_outlives_the_watch() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = _Unselective(clock)
        informer = Announced(api, JOB_SETS, clock=clock)
        task = asyncio.create_task(Definitions(api, clock, [informer], Recorded()).run())
        await api.apply(_definition(JOB_SETS.name))
        await clock.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert {asyncio.current_task()} == asyncio.all_tasks()

    run(clock, story())
