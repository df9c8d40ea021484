# SPDX-License-Identifier: Apache-2.0
"""The manager's view of its worker clusters: caches, connections and observers."""

from __future__ import annotations

import asyncio

import pytest

from control.remote_fakes import FakeWorkers
from control.virtual import START, VirtualClock, played
from kuota.api.base import Json, Key
from kuota.control.checks.multikueue.remote import WORKLOAD, RemoteChange
from kuota.kube.errors import Unreachable
from kuota.kube.resources import JOBS, WORKLOADS

JOB = ("batch", "Job")


def workload(name: str, origin: str) -> Json:
    labels = {"kueue.x-k8s.io/multikueue-origin": origin}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": "team", "name": name, "labels": labels},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }


def test_a_cache_holds_objects_of_this_origin_only_and_reports_their_changes() -> None:
    async def story() -> None:
        async with FakeWorkers(VirtualClock(), {JOB: JOBS}) as workers:
            seen: list[RemoteChange] = []
            workers.clusters.observe(seen.append)
            api = workers.add("near")
            await api.apply(workload("mine", "multikueue"), workload("other", "elsewhere"))
            near = await workers.connect("near")
            assert near.workload(Key("team", "mine")) is not None
            assert near.workload(Key("team", "other")) is None
            await api.create(WORKLOADS, workload("later", "multikueue"))
            await asyncio.sleep(1)
            assert [("near", WORKLOAD, "mine"), ("near", WORKLOAD, "later")] == [
                (each.cluster, each.kind, each.key.name) for each in seen
            ]

    played(story())


def test_the_time_of_the_first_loss_is_kept_until_the_cluster_is_connected() -> None:
    async def story() -> None:
        async with FakeWorkers(VirtualClock(), {}) as workers:
            heard: list[str] = []
            workers.clusters.observe_connections(heard.append)
            near = await workers.connect("near")
            assert (True, None) == (near.connected, near.lost_since)
            await asyncio.sleep(10)
            await workers.disconnect("near")
            await asyncio.sleep(10)
            workers.clusters.mark_lost("near", START.timestamp() + 20)
            assert START.timestamp() + 10 == near.lost_since
            assert workers.clusters.active() == []
            with pytest.raises(Unreachable, match="'near' is not connected"):
                _ = near.client
            await workers.connect("near")
            assert [near] == workers.clusters.active()
            assert ["near"] * 4 == heard

    played(story())


def test_a_write_is_visible_before_the_watch_delivers_it() -> None:
    async def story() -> None:
        async with FakeWorkers(VirtualClock(), {}) as workers:
            api = workers.add("near")
            near = await workers.connect("near")
            api.lag_s = 60
            stored = await near.client.create(WORKLOADS, workload("mine", "multikueue"))
            near.wrote(WORKLOAD, stored)
            assert near.workload(Key("team", "mine")) == stored

    played(story())


def test_a_removed_cluster_is_unknown() -> None:
    async def story() -> None:
        async with FakeWorkers(VirtualClock(), {}) as workers:
            near = await workers.connect("near")
            await workers.remove("near")
            assert workers.clusters.get("near") is None
            assert not near.connected

    played(story())
