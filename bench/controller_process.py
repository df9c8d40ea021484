# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks start `kuota controller`: core and scheduler, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from cluster.kube_server import free_port

CLIENT_CONNECTION = {"qps": 50, "burst": 100}
"""The limits that Kueue's minimal manager sets itself. How often work is preempted depends on
them: a manager that may write faster fills the quota sooner, and urgent work finds it taken.
"""

_KUOTA = str(Path(sys.executable).with_name("kuota"))


def controller_command(folder: Path) -> list[str]:
    """The command, to be completed by `--kubeconfig FILE`. Its configuration is in the folder."""
    config = folder / "config.json"
    metrics, health = (f"127.0.0.1:{free_port()}" for _ in range(2))
    content = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": CLIENT_CONNECTION,
        "metrics": {"bindAddress": metrics},
        "health": {"healthProbeBindAddress": health},
        "internalCertManagement": {"enable": False},
    }
    config.write_bytes(msgspec.json.encode(content))
    parts = ["--parts", "core,scheduler", "--plain-metrics"]
    return [_KUOTA, "controller", *parts, "--config", str(config)]
