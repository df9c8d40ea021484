# SPDX-License-Identifier: Apache-2.0
"""A real `kuota up` in a folder of its own, to be measured from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kuota.api.base import Json
from kuota.kube import resources as kinds
from kuota.kube.client import Client

from . import process

SLOTS = 64
"""How many Jobs may run at once: pretend GPUs, and the quota of the one queue."""
_KUOTA = str(Path(sys.executable).with_name("kuota"))
_GPU = "nvidia.com/gpu"


class Installation:
    """A running installation. CPU and memory are those of its one process, not of its Jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "state" / "kubeconfig"
        self._environment = {**os.environ, "KUOTA_STATE": str(folder / "state")}
        self._pid = 0

    def start(self) -> None:
        self._kuota("up", "--detach", "--gpus", str(SLOTS))
        running = self.folder / "state" / "running.json"
        self._pid = json.loads(running.read_bytes())["pid"]

    def stop(self) -> None:
        self._kuota("down", "--kill")

    def restart(self) -> None:
        """The control plane alone, with all that it keeps."""
        self._kuota("down")
        self.start()

    def cpu_s(self) -> float:
        return process.cpu_s(self._pid)

    def memory_mib(self) -> float:
        return process.memory_mib(self._pid)

    def _kuota(self, *arguments: str) -> None:
        command = [_KUOTA, *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)


@contextmanager
def installed() -> Iterator[Installation]:
    """An installation that is gone afterwards, with all that it ran."""
    with tempfile.TemporaryDirectory(prefix="kuota-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # Jobs may run as another user
        found = Installation(folder)
        found.start()
        try:
            yield found
        finally:
            found.stop()


def named(api_version: str, kind: str, name: str, namespace: str = "", **fields: object) -> Json:
    """An object with its name, and these fields."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


async def set_up_queue(client: Client) -> None:
    """One queue with room for as many Jobs at once as there are slots."""
    v1beta2 = "kueue.x-k8s.io/v1beta2"
    quota = {"name": "any", "resources": [{"name": _GPU, "nominalQuota": str(SLOTS)}]}
    group = {"coveredResources": [_GPU], "flavors": [quota]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    local = named(v1beta2, "LocalQueue", "bench", "default", spec={"clusterQueue": "bench"})
    await client.create(kinds.RESOURCE_FLAVORS, named(v1beta2, "ResourceFlavor", "any"))
    await client.create(kinds.CLUSTER_QUEUES, named(v1beta2, "ClusterQueue", "bench", spec=spec))
    await client.create(kinds.LOCAL_QUEUES, local)


def job(name: str, *command: str) -> Json:
    """A Job of one pod that takes one slot of the queue."""
    container = {
        "name": "main",
        "image": "none",
        "command": list(command),
        "resources": {"limits": {_GPU: "1"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    made = named("batch/v1", "Job", name, "default", spec={"template": {"spec": pod}})
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "bench"}
    return made
