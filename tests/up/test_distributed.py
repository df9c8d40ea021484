# SPDX-License-Identifier: Apache-2.0
"""Two processes train together, are preempted, and continue, as PyTorchJob and as JobSet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from up.machine import Machine, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed"


@pytest.fixture
def machine() -> Iterator[Machine]:
    with running("--gpus", "2") as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "kind", "name", "leader", "pods", "ended"),
    [
        ("2-pytorchjob.yaml", "pytorchjob", "train", "train-master-0", 1, "Succeeded"),
        ("3-jobset.yaml", "jobset", "ring", "ring-node-0", 2, "Completed"),
    ],
    ids=["PyTorchJob", "JobSet"],
)
def test_a_distributed_run_is_preempted_and_continues(
    machine: Machine, file: str, kind: str, name: str, leader: str, pods: int, ended: str
) -> None:
    saved = machine.state.parent / "saved"
    saved.mkdir()
    saved.chmod(0o777)
    manifest = (EXAMPLE / file).read_text().replace("/tmp/", f"{saved}/")
    env = "{name: STEP_S, value: '0.1'}"
    more = f"- {env}\n              - {{name: CHECKPOINT"
    manifest = manifest.replace("- {name: CHECKPOINT", more)
    manifest = manifest.replace("env: [", f"env: [{env}, ")
    machine.kubectl("apply", "-f", str(EXAMPLE / "1-queues.yaml"))
    machine.apply(manifest)
    machine.wait(f"job/{leader}", "create")
    machine.started(leader, pods)
    with machine.following("logs", "-f", f"job/{leader}") as log:
        assert any("step 3: the sum is 3" in line for line in islice(log, 1000))

    machine.kubectl("apply", "-f", str(EXAMPLE / "4-urgent.yaml"))
    machine.wait("job/urgent", "condition=Complete")
    machine.wait(f"{kind}/{name}", f"condition={ended}")

    logs = machine.kuota("logs", f"{kind}/{name}")
    starts = {line.rpartition(" ")[2] for line in logs.splitlines() if "begins at step" in line}
    assert "0" in starts
    assert any(int(each) >= 3 for each in starts), logs
    assert "step 19: the sum is 3" in logs
    shown = machine.kubectl("describe", kind, name)
    assert "Started" in shown
    assert "Stopped" in shown
    assert name in machine.kubectl("get", kind)
    assert "Finished" in machine.kuota("describe", f"{kind}/{name}")
    assert name in machine.kuota("list", "workloads")


def test_a_kind_that_cannot_run_here_is_queued_and_says_so(machine: Machine) -> None:
    machine.kubectl("apply", "-f", str(EXAMPLE / "1-queues.yaml"))
    manifest = (EXAMPLE / "2-pytorchjob.yaml").read_text()
    manifest = manifest.replace("PyTorchJob", "TFJob").replace("pytorchReplica", "tfReplica")
    said = machine.warnings("apply", "-f", "-", stdin=manifest)
    assert "Warning: nothing on this machine starts pods for kind TFJob" in said
    machine.wait("tfjob/train", "jsonpath={.spec.runPolicy.suspend}=false")
    machine.kubectl("wait", "event", "--field-selector=reason=NothingStartsPods", "--for=create")
    assert "NothingStartsPods" in machine.kuota("describe", "tfjob", "train")
    assert [] == machine.get("pods")["items"]
