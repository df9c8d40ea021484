# SPDX-License-Identifier: Apache-2.0
"""Logs of deleted pods are read by those who may read logs of pods in the namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kuota.api.base import Json
from kuota.runner.log_archive import LogArchive
from kuota.runner.pod_home import PodHome
from kuota.runner.shim_log import STAMP_BYTES
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, ANONYMOUS, Request, User
from kuota.server.store import Store
from kuota.up.pod_logs import ArchivedLogs

ADMIN = User("root", (ADMINS,))
RED = User("ann", ("red", "system:authenticated"))
BLUE = User("eve", ("blue", "system:authenticated"))
LIST = "/apis/logs.kuota.dev/v1alpha1/namespaces/default/pods"
LOG = f"{LIST}/train-1/log"
POD: Json = {
    "metadata": {
        "name": "train-1",
        "namespace": "default",
        "uid": "p1",
        "labels": {"batch.kubernetes.io/job-name": "train"},
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "j1", "controller": True}],
    },
    "spec": {"containers": [{"name": "main"}]},
}


def _answer(folder: Path, path: str, user: User, **query: str) -> tuple[int, bytes]:
    """What the user gets, where namespace `default` belongs to team red."""
    archive = LogArchive(str(folder))
    home = PodHome(str(folder / "pods"), "p1")
    home.create(POD)
    Path(home.run("main", 0)).mkdir(parents=True)
    Path(home.run("main", 0), "log").write_bytes(b"0" * STAMP_BYTES + b"epoch 1\n")
    archive.keep("j1", POD, home)
    home.remove()

    async def asked() -> tuple[int, bytes]:
        api = ApiServer(Store.open(":memory:"))
        api.extensions.append(ArchivedLogs(archive))
        labels = {"metadata": {"labels": {"kuota.dev/team": "red"}}}
        patch = Request(
            method="PATCH",
            path="/api/v1/namespaces/default",
            headers={"content-type": "application/merge-patch+json"},
            body=msgspec.json.encode(labels),
            user=ADMIN,
        )
        await api.handle(patch)
        answer = await api.handle(Request(method="GET", path=path, query=query, user=user))
        api.store.close()
        return answer.status, await _whole(answer.body)

    return asyncio.run(asked())


async def _whole(body: bytes | AsyncIterator[bytes]) -> bytes:
    return body if isinstance(body, bytes) else b"".join([each async for each in body])


@pytest.mark.parametrize(
    ("user", "status"), [(ADMIN, 200), (RED, 200), (BLUE, 403), (ANONYMOUS, 401)]
)
def test_only_those_who_may_read_logs_of_the_namespace_get_them(
    tmp_path: Path, user: User, status: int
) -> None:
    assert status == _answer(tmp_path, LOG, user)[0]
    assert status == _answer(tmp_path, LIST, user)[0]


def test_a_log_is_read_as_that_of_a_pod(tmp_path: Path) -> None:
    assert (200, b"epoch 1\n") == _answer(tmp_path, LOG, RED)
    assert 400 == _answer(tmp_path, LOG, RED, container="other")[0]
    assert 404 == _answer(tmp_path, LOG.replace("train-1", "train-2"), RED)[0]


def test_pods_are_listed_by_the_label_of_their_job(tmp_path: Path) -> None:
    selector = "batch.kubernetes.io/job-name"
    for job, names in (("train", ["train-1"]), ("other", [])):
        body = _answer(tmp_path, LIST, RED, labelSelector=f"{selector}={job}")[1]
        items = msgspec.json.decode(body)["items"]
        assert names == [each["metadata"]["name"] for each in items]
