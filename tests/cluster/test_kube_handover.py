# SPDX-License-Identifier: Apache-2.0
"""`kuota handover` as a process, with exactly the documented permissions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec

from cluster.kube_server import ADMIN_TOKEN, KubeServer
from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue
from hang import HANG_S
from kuota.api.base import Json
from kuota.install.objects import resource_of
from kuota.kube.resources import key_of

MOVER = "mover"
_RBAC = "rbac.authorization.k8s.io"


def test_the_rights_that_are_documented_suffice(on_stage: StageRunner, kube: KubeServer) -> None:
    async def scene(stage: Stage) -> None:
        await stage.apply(flavor(), queue("cq", 1), local_queue(), job("one"))
        await stage.shows("True/Admitted", stage.says, "one", "Admitted")
        await stage.stop_system()
        refused = await _kuota(kube, "handover")
        assert (1, True) == (refused.returncode, "forbidden" in refused.stderr)
        role, binding = _role(), _binding()
        try:
            for each in (role, binding):
                await stage.client.create(resource_of(each), each)
            done = await _kuota(kube, "handover")
            assert (0, "") == (done.returncode, _faults(done.stderr))
            assert "1 handed over" in done.stdout
        finally:
            for each in (binding, role):
                await stage.client.delete(resource_of(each), key_of(each))

    on_stage(scene)


async def _kuota(kube: KubeServer, *words: str) -> subprocess.CompletedProcess[str]:
    """`kuota` with a kubeconfig in which the admin acts as the mover."""
    config = msgspec.yaml.decode(kube.kubeconfig.read_bytes())
    config["users"][0]["user"] = {"token": ADMIN_TOKEN, "as": MOVER}
    file = kube.folder / "mover.kubeconfig"
    file.write_bytes(msgspec.yaml.encode(config))
    program = Path(sys.executable).with_name("kuota")
    command = [str(program), *words, "--kubeconfig", str(file)]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=HANG_S, check=False
    )


def _faults(said: str) -> str:
    return "\n".join(line for line in said.splitlines() if line.startswith(("Error", "Trace")))


def _role() -> Json:
    workloads = {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads"],
        "verbs": ["get", "list", "patch"],
    }
    status = workloads | {"resources": ["workloads/status"], "verbs": ["patch"]}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    return _named("ClusterRole") | {"rules": [workloads, status, leases]}


def _binding() -> Json:
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": MOVER}
    user = {"apiGroup": _RBAC, "kind": "User", "name": MOVER}
    return _named("ClusterRoleBinding") | {"roleRef": role, "subjects": [user]}


def _named(kind: str) -> Json:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": MOVER}}
