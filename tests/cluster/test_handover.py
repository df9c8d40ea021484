# SPDX-License-Identifier: Apache-2.0
"""A handover transfers ownership to Kueue, which can remove fields by apply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from cluster.stage import Stage, StageRunner
from control.objects import condition, flavor, job, local_queue, queue
from kuota.api.base import Json, Key
from kuota.cli.connect import Failed
from kuota.cli.handover import HandingOver, alone
from kuota.kube.lease import Election, Timing
from kuota.kube.requests import HttpRequest, HttpResponse, PatchType, Transport
from kuota.kube.resources import LEASES, WORKLOADS, key_of

KUEUE = "kueue-admission"
READY: Json = {"waitForPodsReady": {"timeout": "5m"}}


def test_kueue_takes_back_by_apply_what_kuota_admitted(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        before = await _admitted(stage, "one")
        assert 0 == await HandingOver(stage.client).run()
        after = await _read(stage, "one")
        assert _said(before) == _said(after)
        assert not _owned_by_kuota(after)
        released = await _released_by_kueue(stage, "one")
        assert "admission" not in released["status"]
        assert "False/Pending" == _says(released, "QuotaReserved")
        assert "True/Started" == _says(released, "PodsReady")

    on_stage(scene, READY)


def test_an_admission_that_kueue_could_not_take_back_is_taken_away(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _admitted(stage, "one")
        stuck = await _released_by_kueue(stage, "one")
        assert "admission" in stuck["status"]
        assert 0 == await HandingOver(stage.client).run()
        freed = await _read(stage, "one")
        assert "admission" not in freed["status"]
        assert stuck["status"]["conditions"] == freed["status"]["conditions"]

    on_stage(scene, READY)


def test_kuota_can_go_on_and_hand_over_again(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _admitted(stage, "one")
        await HandingOver(stage.client).run()
        stage.start_system()
        await stage.edit_workload("one", {"spec": {"active": False}})
        await stage.holds(lambda: "admission" not in stage.workload("one")["status"])
        await stage.edit_workload("one", {"spec": {"active": True}})
        await stage.shows("True/Started", stage.says, "one", "PodsReady")
        await stage.stop_system()
        await HandingOver(stage.client).run()
        released = await _released_by_kueue(stage, "one")
        assert "admission" not in released["status"]

    on_stage(scene, READY)


def test_a_second_run_and_a_dry_one_change_nothing(
    on_stage: StageRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scene(stage: Stage) -> None:
        before = await _admitted(stage, "one")
        assert 0 == await HandingOver(stage.client, dry_run=True).run()
        assert "1 handed over (dry run)" in capsys.readouterr().out
        assert before == await _read(stage, "one")
        assert 0 == await HandingOver(stage.client).run()
        after = await _read(stage, "one")
        assert 0 == await HandingOver(stage.client).run()
        assert "1 unchanged" in capsys.readouterr().out
        assert after == await _read(stage, "one")

    on_stage(scene)


def test_work_that_is_over_is_left_alone(
    on_stage: StageRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.apply(flavor(), queue("cq", 1), local_queue(), job("one"))
        await stage.succeed("one")
        await stage.shows("True/Succeeded", stage.says, "one", "Finished")
        await stage.stop_system()
        before = await _read(stage, "one")
        assert 0 == await HandingOver(stage.client).run("json")
        assert '"outcome": "finished"' in capsys.readouterr().out
        assert before == await _read(stage, "one")

    on_stage(scene)


def test_who_writes_in_between_is_not_overwritten(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _admitted(stage, "one")

        async def label() -> None:
            await stage.edit_workload("one", {"metadata": {"labels": {"mark": "x"}}})

        hurried = stage.ground.client(lambda line: _Interrupted(line, label))
        assert 0 == await HandingOver(hurried).run()
        after = await _read(stage, "one")
        assert "x" == after["metadata"]["labels"]["mark"]
        assert not _owned_by_kuota(after)

    on_stage(scene)


def test_nothing_is_handed_over_while_kuota_leads(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        key = Key(stage.names.namespace, "lock")
        await alone(stage.client, key)
        quick = Timing(lease_s=30, renew_deadline_s=20, retry_s=0.2)
        election = Election(stage.client, key, "kuota-1", timing=quick)
        await election.acquire()
        holding = asyncio.create_task(election.hold())
        with pytest.raises(Failed, match="kuota-1, a Kuota controller, holds the Lease"):
            await alone(stage.client, key)
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await election.release()
        await alone(stage.client, key)
        held = {"holderIdentity": "kueue-1", "renewTime": "2026-01-02T03:04:05.000000Z"}
        await stage.client.patch(LEASES, key, {"spec": held}, manager="kueue")
        await alone(stage.client, key)

    on_stage(scene)


class _Interrupted:
    """A line on which somebody else writes just before the first patch arrives."""

    def __init__(self, line: Transport, write: Callable[[], Awaitable[None]]) -> None:
        self._line = line
        self._write: Callable[[], Awaitable[None]] | None = write

    async def send(self, request: HttpRequest) -> HttpResponse:
        if request.method == "PATCH" and self._write is not None:
            write, self._write = self._write, None
            await write()
        return await self._line.send(request)

    def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        return self._line.stream(request)

    async def close(self) -> None:
        await self._line.close()


async def _admitted(stage: Stage, name: str) -> Json:
    """The Workload of a Job that Kuota admitted before it left."""
    await stage.apply(flavor(), queue("cq", 1), local_queue(), job(name))
    await stage.shows("True/Admitted", stage.says, name, "Admitted")
    await stage.shows("True/Started", stage.says, name, "PodsReady")
    await stage.stop_system()
    found = await _read(stage, name)
    assert _owned_by_kuota(found)
    return found


async def _read(stage: Stage, name: str) -> Json:
    return await stage.client.get(WORKLOADS, key_of(stage.workload(name)))


async def _released_by_kueue(stage: Stage, name: str) -> Json:
    """As Kueue gives quota back: it applies all of its area but the admission."""
    found = await _read(stage, name)
    lost = {"status": "False", "reason": "Pending", "message": "evicted"}
    kept = [condition(found, each) | lost for each in ("QuotaReserved", "Admitted")]
    applied = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": key_of(found).name, "uid": found["metadata"]["uid"]},
        "status": {"conditions": kept},
    }
    return await stage.client.patch(
        WORKLOADS,
        key_of(found),
        applied,
        kind=PatchType.APPLY,
        manager=KUEUE,
        force=True,
        subresource="status",
    )


def _said(workload: Json) -> Json:
    """All of it but who wrote it."""
    skip = ("managedFields", "resourceVersion")
    metadata = {k: v for k, v in workload["metadata"].items() if k not in skip}
    return workload | {"metadata": metadata}


def _owned_by_kuota(workload: Json) -> bool:
    """Whether Kuota's updates own something of the status."""
    return any(
        (each["manager"], each.get("subresource")) == ("kuota", "status")
        for each in workload["metadata"]["managedFields"]
    )


def _says(workload: Json, type_: str) -> str:
    found = condition(workload, type_)
    return f"{found['status']}/{found['reason']}"
