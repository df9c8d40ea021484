# SPDX-License-Identifier: Apache-2.0
"""Three teams on one machine with eight simulated GPUs, in a state worth looking at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from up.machine import Machine, running

QUEUES = Path(__file__).parents[2] / "examples" / "live" / "1-queues.yaml"
PRIORITY = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
"""
MARKUP = "<img src=x onerror=window.broken=1><script>window.broken=1</script>"
TRAIN = "i=0; while true; do i=$((i + 1)); echo step $i, loss 0.$((9999 / i)); sleep 0.4; done"
HOSTILE = f"""echo "{MARKUP}"; printf '\\033[31mred\\033[0m\\n'; exec sleep 600"""


def job(team: str, name: str, gpus: int, script: str = TRAIN, *, pods: int = 1) -> str:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {
        "name": name,
        "namespace": team,
        "labels": {"kueue.x-k8s.io/queue-name": "gpus"},
        "annotations": {"note": MARKUP},
    }
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return json.dumps(body) + "\n"


@contextmanager
def lab() -> Iterator[Machine]:
    """A machine on which vision was preempted by research, and several jobs wait."""
    with running("--gpus", "8", "--dashboard-actions") as machine:
        machine.apply(QUEUES.read_text(), PRIORITY)
        machine.kubectl("label", "namespace", "vision", "kuota.dev/team=vision")
        machine.apply(
            job("speech", "warm-up", 1, "echo ready"), job("research", "crash", 1, "exit 3")
        )
        machine.wait("job/warm-up -n speech", "condition=Complete")
        machine.wait("job/crash -n research", "condition=Failed")
        machine.apply(job("vision", "train", 6))
        machine.started("train", namespace="vision")
        machine.apply(job("speech", "transcribe", 1), job("research", "pretrain", 4))
        machine.started("pretrain", namespace="research")
        machine.started("transcribe", namespace="speech")
        machine.apply(
            *(job("vision", f"sweep-{each}", 1) for each in ("a", "b", "c")),
            job("vision", "hostile", 0, HOSTILE),
            job("speech", "align", 4),
        )
        for each in ("sweep-a", "sweep-b", "sweep-c", "hostile"):
            machine.started(each, namespace="vision")
        yield machine
