# SPDX-License-Identifier: Apache-2.0
"""The visibility API of the embedded server."""

from __future__ import annotations

import asyncio
import json

import msgspec

from build import job, local_queue, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, ANONYMOUS, Request, User
from kuota.server.store import Store
from kuota.up.extensions import VisibilityExtension
from kuota.visibility.api import PREFIX, VisibilityApi
from up import lab
from up.machine import Machine, running

ADMIN = User("root", (ADMINS,))
MEMBER = User("ann", ("red", "system:authenticated"))
SHARED = f"{PREFIX}/v1beta2/clusterqueues/q/pendingworkloads"
OWN = f"{PREFIX}/v1beta2/namespaces/default/localqueues/q/pendingworkloads"


class FakeObjects:
    def metadata(self, kind: str, key: Key) -> Json:
        return {}


def _status(path: str, user: User) -> int:
    """What a user gets who asks for a path, where namespace `default` is of team red."""

    async def asked() -> int:
        api = ApiServer(Store.open(":memory:"))
        engine = Engine()
        for each in (namespace(), queue("q", gpu=1), local_queue("q"), job("j", queue="q", gpu=2)):
            engine.apply(ObjectStored(value=each), 0.0)
        api.extensions.append(VisibilityExtension(VisibilityApi(engine, FakeObjects())))
        labels = {"metadata": {"labels": {"kuota.dev/team": "red"}}}
        await api.handle(
            Request(
                method="PATCH",
                path="/api/v1/namespaces/default",
                headers={"content-type": "application/merge-patch+json"},
                body=msgspec.json.encode(labels),
                user=ADMIN,
            )
        )
        answer = await api.handle(Request(method="GET", path=path, user=user))
        api.store.close()
        return answer.status

    return asyncio.run(asked())


def test_a_team_sees_its_own_line_and_only_admins_see_everyones() -> None:
    assert [200, 200] == [_status(path, ADMIN) for path in (SHARED, OWN)]
    assert [403, 200] == [_status(path, MEMBER) for path in (SHARED, OWN)]
    assert [401, 401] == [_status(path, ANONYMOUS) for path in (SHARED, OWN)]
    assert 403 == _status(OWN, User("eve", ("blue", "system:authenticated")))


def test_kubectl_reads_the_line() -> None:
    with running() as machine:
        machine.apply(lab.queues(gpus=0), lab.job("a", "true"), lab.job("b", "true"))
        for name in ("a", "b"):
            label = f"--selector=kueue.x-k8s.io/job-uid={_uid(machine, name)}"
            condition = "--for=condition=QuotaReserved=false"
            machine.kubectl("wait", "workload", label, condition, f"--timeout={HANG_S}s")
        found = json.loads(machine.kubectl("get", "--raw", SHARED.replace("/q/", "/lab/")))
        owners = [each["metadata"]["ownerReferences"][0]["name"] for each in found["items"]]
        assert ["a", "b"] == sorted(owners)
        assert [0, 1] == [each["positionInLocalQueue"] for each in found["items"]]


def _uid(machine: Machine, job: str) -> str:
    uid: str = machine.get("job", job)["metadata"]["uid"]
    return uid
