# SPDX-License-Identifier: Apache-2.0
"""Jobs whose machine loses power or restarts while they run."""

from __future__ import annotations

import json

import pytest

from control.objects import condition
from up.lab import queues
from up.machine import Machine
from up.power import boot_again, cut_power

WORK = "echo begins >> {notes}; [ $(wc -l < {notes}) -gt 1 ] || exec sleep 1000"
"""Sleeps for long when it runs for the first time, and ends at once later."""


@pytest.mark.slow
def test_a_job_whose_machine_restarts_runs_again_without_a_retry(
    machine: Machine,
) -> None:
    notes = machine.state.parent / "notes"
    notes.touch()
    notes.chmod(0o666)
    machine.apply(queues(1))
    run = ("run", "-q", "main", "--gpus", "1", "--detach", "--workdir", "/", "--name")
    machine.kuota(*run, "train", "--", "sh", "-c", WORK.format(notes=notes))
    machine.started("train")
    machine.kuota(*run, "next", "--", "true")
    (uid,) = admitted(machine)

    cut_power(machine)
    boot_again(machine)
    machine.up("--gpus", "2")
    machine.wait("pod -l job-name=train", "jsonpath={.status.phase}=Failed")
    assert [uid] == admitted(machine), "its quota stays charged, and only its own"
    (usage,) = machine.get("clusterqueue", "lab")["status"]["flavorsUsage"]
    assert "1" == usage["resources"][0]["total"]
    why = "the machine restarted while the container ran"
    assert why in machine.kuota("describe", "job", "train")

    machine.wait("job/train job/next", "condition=Complete")
    job = machine.get("job", "train")["status"]
    assert (1, 0) == (job["succeeded"], job.get("failed", 0))
    first, second = sorted(
        machine.get("pods", "-l", "job-name=train")["items"],
        key=lambda pod: str(pod["status"]["phase"]),
    )
    found = condition(first, "DisruptionTarget")
    assert ("MachineRestarted", why) == (found["reason"], found["message"])
    assert {} == condition(second, "DisruptionTarget")
    assert why in machine.kuota("describe", "job", "train"), "its events still tell"
    check_history(machine)


def check_history(machine: Machine) -> None:
    """The job is one job with one run, whose seconds are counted once."""
    rows = json.loads(machine.kuota("history", "-o", "json"))["items"]
    (row,) = (each for each in rows if each["job"] == "train")
    assert "Succeeded" == row["outcome"]
    hours = row["resources"]["nvidia.com/gpu"]["hours"]
    assert row["ranSeconds"] == pytest.approx(hours * 3600)


def admitted(machine: Machine) -> list[str]:
    """The uids of the Workloads that hold quota."""
    held = [each for each in machine.get("workloads")["items"] if "admission" in each["status"]]
    return [each["metadata"]["uid"] for each in held]
