# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks start `kuota controller`: by default core and scheduler, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

CLIENT_CONNECTION = {"qps": 50, "burst": 100}
"""The limits that Kueue's minimal manager sets itself. How often work is preempted depends on
them: a manager that may write faster fills the quota sooner, and urgent work finds it taken.
"""

_KUOTA = str(Path(sys.executable).with_name("kuota"))


def controller_command(folder: Path, parts: str = "core,scheduler", **settings: Any) -> list[str]:
    """The command, to be completed by `--kubeconfig FILE`. Its configuration is in the folder.

    Like Kueue's minimal manager, it serves neither metrics nor probes. `settings` are further
    fields of the configuration.
    """
    config = folder / "config.json"
    content = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": CLIENT_CONNECTION,
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
        "internalCertManagement": {"enable": False},
    }
    config.write_bytes(msgspec.json.encode(content | settings))
    return [_KUOTA, "controller", "--parts", parts, "--config", str(config)]
