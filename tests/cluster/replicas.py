# SPDX-License-Identifier: Apache-2.0
"""`kuota controller` as processes, several of them, of which one at a time leads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cluster.kube_server import KubeServer, free_port
from kuota.api.base import Json, Key

LEASE_S = 3
PATIENCE_S = 20.0


class Replicas:
    """Controllers without webhooks, which share a Lease in a namespace that is there."""

    def __init__(self, server: KubeServer, folder: Path, namespace: str) -> None:
        self.lease = Key(namespace, "the-leader")
        self._server = server
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> int:
        """One more. Returns its number."""
        number = len(self._running)
        config = self._folder / f"config-{number}.json"
        config.write_text(json.dumps(self._config()))
        program = Path(sys.executable).with_name("kuota")
        command = [str(program), "controller", f"--config={config}", "--parts=core,scheduler,jobs"]
        command += [f"--kubeconfig={self._server.kubeconfig}"]
        with (self._folder / f"replica-{number}.log").open("wb") as log:
            self._running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        return number

    def pid(self, number: int) -> int:
        return self._running[number].pid

    def kill(self, number: int) -> None:
        """End one as a power cut would: it cannot give its Lease back."""
        self._running[number].kill()
        self._running[number].wait(PATIENCE_S)

    def stop(self, number: int) -> int:
        """Ask one to end. Returns its exit status."""
        self._running[number].terminate()
        return self._running[number].wait(PATIENCE_S)

    def wait(self, number: int) -> int:
        """The exit status of one that ends by itself."""
        return self._running[number].wait(PATIENCE_S)

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def log(self, number: int) -> str:
        return (self._folder / f"replica-{number}.log").read_text(errors="replace")

    def _config(self) -> Json:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {
                "leaderElect": True,
                "resourceName": self.lease.name,
                "resourceNamespace": self.lease.namespace,
                "leaseDuration": f"{LEASE_S}s",
                "renewDeadline": "2s",
                "retryPeriod": "500ms",
            },
            "internalCertManagement": {"enable": False},
        }
