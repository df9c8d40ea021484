# SPDX-License-Identifier: Apache-2.0
"""Kinds of external frameworks."""

from __future__ import annotations

from control.fake_api import FakeApi
from control.virtual import VirtualClock, played
from kuota.api.config.shapes import ExternalFramework, MultiKueue
from kuota.bridge.jobs.registry import JOB
from kuota.control.checks.multikueue.external import ExternalJobs
from kuota.control.cluster_cache import ClusterCache
from kuota.kube.resources import WORKLOADS


def test_an_external_kind_does_not_replace_one_with_the_same_name() -> None:
    async def story() -> None:
        clock = VirtualClock()
        world = ClusterCache(api := FakeApi(clock), clock, [JOB])
        named = ExternalFramework(name="Workload.v1.example.com")
        external = ExternalJobs(api, clock, world, MultiKueue(external_frameworks=[named]))
        assert world.resources["Workload"] == WORKLOADS
        assert external.resources.items() <= world.resources.items()

    played(story())
