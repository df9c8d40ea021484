# SPDX-License-Identifier: Apache-2.0
"""The whole system on one machine, with real processes and the real kubectl."""

from __future__ import annotations

from up.lab import job, queues
from up.machine import Machine


def test_jobs_wait_for_quota_and_run_as_processes_that_see_only_their_gpus(
    machine: Machine,
) -> None:
    machine.apply(queues())
    machine.apply(*(job(f"j{n}", "echo $CUDA_VISIBLE_DEVICES", gpus=2) for n in (1, 2)))
    for name in ("j1", "j2"):
        machine.wait(f"job/{name}", "condition=complete")
        assert "GPU-pretend-0,GPU-pretend-1\n" == machine.kubectl("logs", f"job/{name}")
    workloads = machine.get("workloads")["items"]
    assert 2 == len(workloads)
    queue = machine.get("clusterqueue", "lab")
    assert "Ready" == queue["status"]["conditions"][0]["reason"]


def test_a_preempted_job_saves_on_term_goes_on_and_keeps_its_log(
    machine: Machine,
) -> None:
    saved = machine.state.parent / "saved"
    saved.mkdir(mode=0o777)
    saved.chmod(0o777)
    script = (
        f"if [ -e {saved}/state ]; then echo resumed; exit 0; fi; "
        f"trap 'echo saving; touch {saved}/state; exit 1' TERM; "
        f"touch {saved}/begun; while :; do sleep 0.05; done"
    )
    machine.apply(queues(), job("low", script, gpus=2))
    machine.started("low")
    machine.apply(job("urgent", "echo now", 2, urgent=True))
    machine.wait("job/urgent", "condition=complete")
    machine.wait("job/low", "condition=complete")
    assert "resumed\n" == machine.kubectl("logs", "job/low")
    runs = [line.partition("] ")[2] for line in machine.kuota("logs", "job/low").splitlines()]
    assert ("saving", "resumed") == (runs[-2], runs[-1])
    assert "saving" == machine.kuota("logs", "--previous", "job/low").splitlines()[-1]
    events = machine.get("events")["items"]
    assert "Preempted" in {each["reason"] for each in events}


def test_a_killed_control_plane_takes_up_what_still_runs(machine: Machine) -> None:
    gate = machine.state.parent / "gate"
    runs = machine.state.parent / "runs"
    runs.touch()
    runs.chmod(0o666)
    script = f"echo run >> {runs}; while [ ! -e {gate} ]; do sleep 0.05; done; echo done"
    machine.apply(queues(), job("long", script))
    machine.started("long")
    machine.kill()
    machine.up("--gpus", "2")
    gate.touch()
    machine.wait("job/long", "condition=complete")
    assert "run\n" == runs.read_text()
    assert "done\n" == machine.kubectl("logs", "job/long")


def test_describe_shows_the_end_of_a_job(machine: Machine) -> None:
    machine.apply(queues(), job("brief", "true"))
    with machine.following(
        "get", "events", "--watch", "--field-selector", "reason=Completed"
    ) as news:
        assert any("job/brief" in line for line in news)
    said = machine.kubectl("describe", "job", "brief")
    for words in ("job-controller", "SuccessfulCreate", "Created pod: brief-", "Job completed"):
        assert words in said
    by_time = machine.kubectl("get", "events", "--sort-by=.lastTimestamp", "--no-headers")
    assert "Created pod: brief-" in by_time
    events = machine.get("events")["items"]
    assert all(
        each["firstTimestamp"] and each["lastTimestamp"] and each["count"] for each in events
    )
