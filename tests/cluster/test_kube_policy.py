# SPDX-License-Identifier: Apache-2.0
"""The policy that rejects work without a queue, on a real API server.

`tests/install/test_queue_policy.py` makes the same attempts on the embedded server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from cluster.kube_server import KubeServer, programs
from hang import HANG_S
from install.unqueued_work import ALLOWED, DENIED, MANAGED, Attempt
from kuota.api.base import Json
from kuota.install.objects import resource_of
from kuota.install.queue_policy import queue_policy
from kuota.install.settings import Settings
from kuota.kube.client import Client
from kuota.kube.errors import Forbidden
from kuota.kube.resources import NAMESPACES, Resource

_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    made = KubeServer(tmp_path_factory.mktemp("policy"), programs())
    try:
        made.start()
        asyncio.run(_prepared(made))
        yield made
    finally:
        made.close()


async def _prepared(server: KubeServer) -> None:
    """Install the policy, let everybody write everything, and wait until the policy is enforced."""
    async with server.client() as admin:
        for name in (MANAGED, "kueue-system"):
            await admin.create(NAMESPACES, {"metadata": {"name": name}})
        await admin.create(_BINDINGS, _everybody())
        for each in queue_policy(Settings(queue_name_policy=True)):
            await admin.create(resource_of(each), each)
    first = DENIED[0]
    async with asyncio.timeout(HANG_S), server.client(acting_as=first.user) as client:
        while await _allowed(client, first):
            await asyncio.sleep(0.1)


def _everybody() -> Json:
    return {
        "metadata": {"name": "everybody"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [
            {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Group",
                "name": "system:authenticated",
            }
        ],
    }


async def _allowed(client: Client, attempt: Attempt) -> bool:
    try:
        await client.create(attempt.resource, attempt.object, dry_run=True)
    except Forbidden as error:
        if "kueue-queue-name-required" not in str(error):
            raise
        return False
    return True


def _attempted(server: KubeServer, attempt: Attempt) -> bool:
    async def whole() -> bool:
        acting_as = "" if "system:masters" in attempt.groups else attempt.user
        async with server.client(acting_as=acting_as) as client:
            return await _allowed(client, attempt)

    return asyncio.run(whole())


@pytest.mark.parametrize("attempt", DENIED, ids=str)
def test_work_without_a_queue_is_denied(server: KubeServer, attempt: Attempt) -> None:
    assert not _attempted(server, attempt)


@pytest.mark.parametrize("attempt", ALLOWED, ids=str)
def test_other_work_is_allowed(server: KubeServer, attempt: Attempt) -> None:
    assert _attempted(server, attempt)
