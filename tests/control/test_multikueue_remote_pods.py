# SPDX-License-Identifier: Apache-2.0
"""Pods of dispatched Workloads, as the manager shows them to its users."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from control.multikueue_fleet import Fleet, Member, told
from kuota.api.base import Json, Key
from kuota.control.checks.multikueue.remote_pods import MOST_OF_NAMESPACE
from kuota.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    KubeError,
    NotFound,
    TooManyRequests,
)
from kuota.kube.requests import LogOptions
from kuota.kube.resources import JOBS, PODS, WORKLOADS

SECRET = "password-of-the-worker"


def pod(name: str, owner: Json | None = None, kind: str = "Job", group: str = "batch/v1") -> Json:
    meta: Json = {"namespace": "team", "name": name}
    if owner is not None:
        at = {"apiVersion": group, "kind": kind, "controller": True}
        meta["ownerReferences"] = [at | {k: owner["metadata"][k] for k in ("name", "uid")}]
    container = {"name": "main", "env": [{"name": "P", "value": SECRET}]}
    spec = {"nodeName": "n1", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}


async def dispatched(fleet: Fleet) -> tuple[Member, Key, Json]:
    """Submit a Job. Returns its cluster, the key of its Workload, and the copy of the Job."""
    await fleet.submit("train")
    await fleet.rest(10)
    place = fleet.members[fleet.cluster_of("train")]
    copy = place.api.find(JOBS, "train")
    assert copy is not None
    name = fleet.workload("train")["metadata"]["name"]
    return place, Key("team", name), copy


def logging(member: Member, error: KubeError | None = None) -> None:
    """Let the API server of a member have logs, or fail to read them."""

    async def log(key: Key, options: LogOptions) -> AsyncGenerator[bytes, None]:
        if error is not None:
            raise error
        yield f"log of {key.name} {options.tail}".encode()

    member.line.log = log  # type: ignore[method-assign,assignment]


async def read(fleet: Fleet, key: Key, name: str) -> bytes:
    source = _source(fleet).log(key, name, LogOptions(tail=3))
    return b"".join([chunk async for chunk in source])


def _source(fleet: Fleet) -> Any:
    assert fleet.system.checks.multikueue is not None
    return fleet.system.checks.multikueue.pods


def test_only_pods_of_the_copy_are_shown_and_only_their_state() -> None:
    async def scene(fleet: Any) -> None:
        place, key, copy = await dispatched(fleet)
        other = await place.api.create(
            JOBS, copy | {"metadata": {"namespace": "team", "name": "x"}}
        )
        below = {"namespace": "team", "name": "below"}
        below["ownerReferences"] = pod("", copy)["metadata"]["ownerReferences"]
        child = await place.api.create(JOBS, copy | {"metadata": below})
        forged = {"metadata": {"name": "x", "uid": copy["metadata"]["uid"] + "0"}}
        for each in (
            pod("mine", copy),
            pod("mine-below", child),
            pod("of-another-job", other),
            pod("of-nobody"),
            pod("of-a-missing-job", forged),
            pod("of-an-unknown-kind", other, "Thing", "example.com/v1"),
        ):
            await place.api.create(PODS, each)
        cluster, pods = await _source(fleet).pods(key)
        assert place.name == cluster
        assert ["mine", "mine-below"] == sorted(each["metadata"]["name"] for each in pods)
        assert SECRET not in str(pods)
        logging(place)
        assert b"log of mine 3" == await read(fleet, key, "mine")
        for name in ("of-another-job", "of-nobody", "none", "..", "a/b"):
            with pytest.raises(NotFound, match="has no pod"):
                await read(fleet, key, name)

    told(scene)


def test_a_workload_that_is_nowhere_else_has_no_pods_to_show() -> None:
    async def scene(fleet: Any) -> None:
        place, key, _ = await dispatched(fleet)
        with pytest.raises(NotFound, match="not found"):
            await _source(fleet).pods(Key("team", "none"))
        with pytest.raises(NotFound, match="not found"):
            await _source(fleet).pods(Key("blue", key.name))
        await fleet.submit("waits", "99")
        await fleet.rest(10)
        waiting = fleet.workload("waits")["metadata"]["name"]
        with pytest.raises(NotFound, match="no other cluster"):
            await _source(fleet).pods(Key("team", waiting))
        foreign = {"metadata": {"annotations": {"kuota.dev/multikueue-manager": "another"}}}
        await place.api.patch(WORKLOADS, key, foreign)
        await fleet.rest(1)
        with pytest.raises(NotFound):
            await _source(fleet).pods(key)

    told(scene)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Forbidden(403, "Forbidden", "no"), 503, "kuota cluster role"),
        (ApiError(500, "InternalError", "boom"), 503, "failed to answer"),
        (BadRequest(400, "BadRequest", "is waiting to start"), 400, "waiting to start"),
    ],
)
def test_errors_of_a_worker_are_explained(error: KubeError, status: int, message: str) -> None:
    async def scene(fleet: Any) -> None:
        place, key, copy = await dispatched(fleet)
        await place.api.create(PODS, pod("mine", copy))
        logging(place, error)
        with pytest.raises(ApiError, match=message) as found:
            await read(fleet, key, "mine")
        assert status == found.value.status
        place.line.cut()
        await fleet.rest(1)
        with pytest.raises(ApiError, match="not connected") as found:
            await _source(fleet).pods(key)
        assert 503 == found.value.status

    told(scene)


def test_the_copies_of_a_finished_job_stay_while_its_logs_are_read() -> None:
    async def scene(fleet: Any) -> None:
        place, key, copy = await dispatched(fleet)
        await place.api.create(PODS, pod("mine", copy))
        await _source(fleet).pods(key)
        await place.kubelet.succeed("train")
        await fleet.rest(1)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert 1 == len((await _source(fleet).pods(key))[1])
        await fleet.rest(5)
        assert 0 == place.copies()

    told(scene)


def test_readers_of_logs_delay_the_removal_of_copies_for_a_short_time_only() -> None:
    async def scene(fleet: Any) -> None:
        place, key, _ = await dispatched(fleet)
        await place.kubelet.succeed("train")
        for _ in range(15):
            with suppress(NotFound):
                await _source(fleet).pods(key)
            await fleet.rest(1)
        assert 0 == place.copies()

    told(scene)


def test_open_logs_of_a_cluster_are_limited() -> None:
    async def scene(fleet: Any) -> None:
        place, key, copy = await dispatched(fleet)
        await place.api.create(PODS, pod("mine", copy))
        logging(place)
        logs = [_source(fleet).log(key, "mine", LogOptions()) for _ in range(MOST_OF_NAMESPACE)]
        for each in logs:
            await anext(each)
        with pytest.raises(TooManyRequests, match="too many logs"):
            await read(fleet, key, "mine")
        for each in logs:
            await each.aclose()
        assert await read(fleet, key, "mine")
        assert not _source(fleet)._open, "nothing is kept about closed logs"

    told(scene)
