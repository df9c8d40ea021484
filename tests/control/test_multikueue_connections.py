# SPDX-License-Identifier: Apache-2.0
"""Connections to worker clusters: attempts, losses, reconnection, and refused clusters."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from control.virtual import START, played
from control.worker_connections import HERE, JOB, LOST, Scene, Worker
from kuota import failures
from kuota.api.base import Json, Key
from kuota.bridge.job_pass.injections import MULTI_KUEUE_ORIGIN
from kuota.control.checks.controller import Activity
from kuota.kube.config import Connection
from kuota.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from kuota.kube.resources import JOBS, WORKLOADS


def test_a_cluster_is_connected_once_everything_is_known() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            assert scene.connections.state("near") is None
            await asyncio.sleep(1)
            assert Activity(True, "Active", "Connected") == scene.last()
            assert ["near"] == [each.name for each in scene.clusters.active()]

    played(story())


def test_the_delay_between_attempts_doubles_up_to_a_limit() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.here.down = LOST
            await scene.connections.use("near", HERE)
            await asyncio.sleep(2000)
            times = [at for at, _, _ in scene.reports]
            waits = [round(b - a) for a, b in pairwise(times)]
            assert [5, 10, 20, 40, 80, 160, 320, 320, 320, 320] == waits[:10]
            assert scene.last().reason == "ClientConnectionFailed"
            assert f"connection attempts: {len(times)}" in scene.last().message
            assert scene.here.closed == len(times)

    played(story())


def test_a_lost_cluster_is_reconnected_at_once_and_a_short_loss_is_not_reported() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            await asyncio.sleep(100)
            scene.here.cut(LOST)
            await asyncio.sleep(1)
            assert [True, True] == [state.active for _, _, state in scene.reports]
            near = scene.clusters.get("near")
            assert near is not None
            assert near.connected

    played(story())


def test_a_lost_cluster_is_reported_with_the_time_of_its_first_loss() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            await asyncio.sleep(100)
            scene.here.fail(LOST)
            await asyncio.sleep(600)
            near = scene.clusters.get("near")
            assert near is not None
            assert near.lost_since == pytest.approx(START.timestamp() + 100, abs=1)
            assert not scene.last().active
            scene.here.recover()
            await asyncio.sleep(400)
            assert scene.last().active
            assert near.connected

    played(story())


@pytest.mark.parametrize(
    ("broken", "good"),
    [
        ({"answers": {}}, {"answers": {"metadata": {"uid": "worker"}}}),
        ({"listed": [{"spec": {}}]}, {"listed": None}),
    ],
    ids=["a namespace without metadata", "an object without metadata"],
)
def test_a_malformed_response_is_a_failed_connection(
    broken: dict[str, Any], good: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "COUNTS", counted := Counter[str]())

    async def story() -> None:
        async with Scene() as scene:
            vars(scene.here).update(broken)
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert scene.last().reason == "ClientConnectionFailed"
            assert scene.last().message.startswith("connecting failed: KeyError; ")
            assert counted["worker cluster"] == 1
            vars(scene.here).update(good)
            await asyncio.sleep(10)
            assert scene.last() == Activity(True, "Active", "Connected")

    played(story())


def test_an_observer_that_fails_still_ends_the_process() -> None:
    def fail(_: object) -> None:
        raise ValueError("a bug")

    async def story() -> None:
        async with Scene() as scene:
            scene.clusters.observe(fail)
            await scene.here.apply(_copy())
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            with pytest.raises(BaseExceptionGroup) as raised:
                scene.ended()
            assert isinstance(failures.cause(raised.value), failures.Fatal)

    played(story())


def _copy() -> Json:
    meta = {"namespace": "team", "name": "w", "labels": {MULTI_KUEUE_ORIGIN: "multikueue"}}
    about = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    return about | {"metadata": meta}


def test_a_cluster_that_stops_answering_is_lost() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            await asyncio.sleep(10)
            scene.here.silent = True
            scene.here.down = LOST
            await asyncio.sleep(40)
            assert scene.clusters.active() == []

    played(story())


def test_another_kubeconfig_replaces_the_connection_at_once() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.here.down = LOST
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1000)
            scene.workers["https://there.example.com"] = Worker(scene.clock)
            await scene.connections.use("near", Connection(server="https://there.example.com"))
            await asyncio.sleep(1)
            assert scene.last().active

    played(story())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unauthorized(401, "Unauthorized", "c4n4ry"), "may have expired; store a new kubeconfig"),
        (Forbidden(403, "Forbidden", "c4n4ry"), "kuota cluster role"),
        (LOST, "the connection was refused"),
        (ApiError(500, "InternalError", "c4n4ry"), "500 InternalError"),
    ],
)
def test_the_condition_says_what_is_wrong_and_what_to_do(error: KubeError, text: str) -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.here.down = error
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            if isinstance(error, Forbidden):
                # The identity may be unreadable; the Workloads must not be.
                scene.here.refused[WORKLOADS] = error
            assert text in scene.last().message
            assert "c4n4ry" not in scene.last().message

    played(story())


def test_a_cluster_without_kueue_is_reported_with_a_remedy() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.here.refused[WORKLOADS] = NotFound(404, "NotFound", "no such kind")
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert "does not serve workloads.kueue.x-k8s.io; install" in scene.last().message

    played(story())


def test_a_kind_that_is_missing_or_forbidden_does_not_prevent_the_connection() -> None:
    async def story() -> None:
        for error in (NotFound(404, "NotFound", ""), Forbidden(403, "Forbidden", "")):
            async with Scene() as scene:
                scene.here.refused[JOBS] = error
                await scene.connections.use("near", HERE)
                await asyncio.sleep(5)
                assert scene.last().active
                near = scene.clusters.get("near")
                assert near is not None
                assert near.get(JOB, Key("team", "a")) is None

    played(story())


def test_the_managers_own_cluster_is_refused() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.here.uid = "manager"
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert scene.last().reason == "BadKubeConfig"
            assert "manager's own cluster" in scene.last().message

    played(story())


def test_a_cluster_that_runs_jobs_is_not_replaced_under_its_name() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            await asyncio.sleep(10)
            scene.winners = {"near"}
            there = Connection(server="https://there.example.com")
            scene.workers[there.server] = Worker(scene.clock, "another")
            await scene.connections.use("near", there)
            await asyncio.sleep(1)
            assert scene.last().reason == "BadKubeConfig"
            assert "for another cluster than before" in scene.last().message
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert scene.last().active
            await scene.connections.use("near", there)
            scene.winners = set()
            await asyncio.sleep(10)
            assert scene.last().active

    played(story())


def test_a_cluster_is_replaced_at_once_if_it_was_deleted() -> None:
    async def story() -> None:
        async with Scene() as scene:
            await scene.connections.use("near", HERE)
            await asyncio.sleep(10)
            scene.winners = {"near"}
            await scene.connections.forget("near")
            scene.here.uid = "another"
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert scene.last().active

    played(story())


def test_a_config_does_not_use_a_cluster_under_two_names() -> None:
    async def story() -> None:
        async with Scene() as scene:
            scene.together = {"near", "again"}
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            await scene.connections.use("again", HERE)
            await asyncio.sleep(1)
            assert "same cluster as MultiKueueCluster 'near'" in scene.last("again").message
            await scene.connections.forget("near")
            await asyncio.sleep(10)
            assert scene.last("again").active

    played(story())


def test_two_configs_may_use_a_cluster_under_two_names() -> None:
    async def story() -> None:
        async with Scene() as scene:
            for name in ("near", "again"):
                await scene.connections.use(name, HERE)
                await asyncio.sleep(1)
            assert scene.last("near").active
            assert scene.last("again").active

    played(story())


def test_a_changed_config_makes_a_cluster_a_duplicate_and_a_usable_one_again() -> None:
    async def story() -> None:
        async with Scene() as scene:
            for name in ("near", "again"):
                await scene.connections.use(name, HERE)
                await asyncio.sleep(1)
            scene.together = {"near", "again"}
            for name in ("again", "near"):
                await scene.connections.use(name, HERE)
            await asyncio.sleep(1)
            assert scene.last("near").active
            assert not scene.last("again").active
            scene.together = set()
            await scene.connections.use("again", HERE)
            await asyncio.sleep(1)
            assert scene.last("again").active

    played(story())


def test_a_removed_cluster_is_disconnected_and_a_slow_one_delays_no_other() -> None:
    async def story() -> None:
        async with Scene() as scene:
            slow = Worker(scene.clock, "slow")
            scene.workers["https://slow.example.com"] = slow
            slow.down = Unreachable("x")
            await scene.connections.use("slow", Connection(server="https://slow.example.com"))
            await scene.connections.use("near", HERE)
            await asyncio.sleep(1)
            assert ["near"] == [each.name for each in scene.clusters.active()]
            await scene.connections.forget("near")
            assert scene.clusters.get("near") is None

    played(story())
