# SPDX-License-Identifier: Apache-2.0
"""What an observer of the controllers can look up, and the cost."""

from __future__ import annotations

import pytest

from control.fake_api import FakeApi
from control.virtual import VirtualClock
from kuota.api.base import Json
from kuota.bridge.jobs.registry import JOB
from kuota.control.cluster_cache import ClusterCache
from kuota.control.observer import CacheReader
from kuota.kube import resources as kinds
from kuota.kube.cache import Packer

V1BETA2 = "kueue.x-k8s.io/v1beta2"


def named(kind: str, name: str, number: int, **fields: object) -> Json:
    metadata = {"namespace": "ml", "name": name, "uid": name, "resourceVersion": str(number)}
    return {"apiVersion": V1BETA2, "kind": kind, "metadata": metadata, **fields}


def unpacked(packer: Packer, packed: bytes) -> Json:
    raise AssertionError("a finished Workload was looked at")


def test_a_scrape_does_not_look_at_workloads_that_have_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock()
    world = ClusterCache(FakeApi(clock), clock, [JOB])
    world.wrote(kinds.LOCAL_QUEUES, named("LocalQueue", "team", 1, spec={"clusterQueue": "all"}))
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}
    spec = {"queueName": "team", "podSets": []}
    world.wrote(kinds.WORKLOADS, named("Workload", "waiting", 2, spec=spec))
    over = named("Workload", "over", 3, spec=spec, status={"conditions": [done]})
    world.wrote(kinds.WORKLOADS, over)
    monkeypatch.setattr(Packer, "unpack", unpacked)
    assert ["waiting"] == [each.metadata.name for each in CacheReader(world).workloads()]
