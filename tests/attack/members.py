# SPDX-License-Identifier: Apache-2.0
"""Two teams that do not trust each other, each with a member who has a token."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from hang import HANG_S
from up.machine import KUBECTL, KUOTA, Machine

TEAMS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  namespaceSelector: {matchLabels: {kuota.dev/team: TEAM}}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: TEAM, labels: {kuota.dev/team: TEAM}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: TEAM}
spec: {clusterQueue: TEAM}
"""


class Member:
    """A user with a member's token and no other access to the control plane."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl as the member; the caller judges the exit code."""
        return subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def create(self, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        return self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def join(machine: Machine, name: str, team: str, folder: Path, *options: str) -> Member:
    """Create a team with one GPU of quota, and a token for a member of it."""
    machine.apply(TEAMS.replace("TEAM", team))
    kubeconfig = folder / f"{name}.kubeconfig"
    arguments = ("token", "create", name, "--team", team, "-n", team, "--out", str(kubeconfig))
    done = subprocess.run(
        [KUOTA, *arguments, *options],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Member(kubeconfig, team)


def job(name: str, command: list[str], *, queue: str = "main", gpus: int = 1) -> dict[str, Any]:
    """A Job that requests GPUs; change the result to attack."""
    amounts = {"nvidia.com/gpu": gpus}
    container = {
        "name": "main",
        "image": "none",
        "command": command,
        "resources": {"requests": amounts, "limits": amounts},
    }
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
