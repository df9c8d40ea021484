# SPDX-License-Identifier: Apache-2.0
"""Controllers as processes: they queue Jobs, take over from each other, and stop cleanly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from control.objects import condition, flavor, job, local_queue, queue
from controller.site import LEASE, TOKEN, Site, run_story, stopped
from kuota.api.base import Json, Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LEASES, WORKLOADS, key_of

# A leader that waits for a processor on a busy machine must not lose its lease meanwhile.
QUICK: Json = {
    "leaderElection": {"leaseDuration": "6s", "renewDeadline": "5s", "retryPeriod": "200ms"}
}
RENEWED_OFTEN: Json = {"leaderElection": {"retryPeriod": "200ms"}}
WRITERS = "--parts=core,scheduler,jobs"


def test_jobs_are_queued_and_started_over_a_kubeconfig(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(WRITERS)
        await _queues(site, 1)
        await site.apply(job("one"), job("two"))
        await site.until_some(JOBS, _started)
        await site.until_some(WORKLOADS, _waits)
        await stopped(running)

    run_story(story, tmp_path)


def test_without_an_election_a_server_whose_cache_lags_does_not_delay_the_start(
    tmp_path: Path,
) -> None:
    async def story(site: Site) -> None:
        site.door.lags = True
        running = await site.controller(WRITERS, config={"leaderElection": {"leaderElect": False}})
        await _queues(site, 1)
        await site.apply(job("one"))
        await site.until_some(JOBS, _started)
        await stopped(running)

    run_story(story, tmp_path)


def test_an_authority_that_cannot_be_read_is_named_in_one_line(tmp_path: Path) -> None:
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [
            {"name": "a", "cluster": {"server": "https://[::1]:1", "certificate-authority": "no"}}
        ],
        "users": [{"name": "a", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    done = subprocess.run(
        [sys.executable, "-m", "kuota.cli.main", "controller", "--kubeconfig", "kubeconfig"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == done.returncode
    assert "cannot start: cannot read" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_lease_is_kueues_own_and_given_back_at_the_end(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(WRITERS)
        await site.holder()
        await stopped(running)
        assert "" == (await site.admin.get(LEASES, LEASE))["spec"]["holderIdentity"]

    run_story(story, tmp_path)


def test_one_of_two_leads_and_the_other_is_there_when_it_stops(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        first = await site.controller(WRITERS)
        await first.said("leading")
        second = await site.controller(WRITERS)
        await second.said("starting")
        await _queues(site)
        await stopped(first)
        await second.said("leading")
        await site.apply(job("one"))
        await site.until(JOBS, Key("team", "one"), _started)
        await stopped(second)

    run_story(story, tmp_path)


@pytest.mark.slow
def test_a_killed_leader_is_replaced_and_nothing_is_admitted_twice(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        first = await site.controller(WRITERS, config=QUICK)
        await first.said("leading")
        second = await site.controller(WRITERS, config=QUICK)
        await _queues(site, 5)
        await site.apply(*(job(f"j{n}") for n in range(10)))
        await site.until_some(JOBS, _started)
        await first.kill()
        await second.said("leading")
        started = await site.until_some(JOBS, _started, 5)
        assert 5 == await _reserved(site)
        await site.admin.delete(JOBS, key_of(started[0]), propagation="Background")
        gone = key_of(started[0])
        await site.until_some(JOBS, lambda each: _started(each) and key_of(each) != gone, 5)
        assert 5 == await _reserved(site)
        await stopped(second)

    run_story(story, tmp_path)


@pytest.mark.slow
def test_a_leader_that_cannot_renew_ends_with_a_failure(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(WRITERS, config=QUICK)
        await running.said("leading")
        await site.close()
        assert 1 == await running.ended()
        await running.said("leader election lost")

    run_story(story, tmp_path)


def test_a_stop_in_the_middle_of_a_flood_leaves_work_that_the_next_one_takes_up(
    tmp_path: Path,
) -> None:
    async def story(site: Site) -> None:
        first = await site.controller(WRITERS)
        await first.said("leading")
        await _queues(site, 40)
        await site.apply(*(job(f"j{n}") for n in range(40)))
        await site.until_some(JOBS, _started, 5)
        await stopped(first)
        before = len(site.door.writes())
        second = await site.controller(WRITERS)
        assert before == len(site.door.writes())
        await site.until_some(JOBS, _started, 40)
        assert 40 == await _reserved(site)
        await stopped(second)

    run_story(story, tmp_path)


@pytest.mark.slow
def test_an_idle_leader_writes_nothing_but_its_lease(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(WRITERS, config=RENEWED_OFTEN)
        await _queues(site, 1)
        await site.apply(job("one"), job("two"))
        await site.until_some(WORKLOADS, _waits)
        await site.until_some(CLUSTER_QUEUES, _told_all)
        await _renewals(site, 8)
        before = site.door.writes(), site.door.events()
        await _renewals(site, 10)
        assert before == (site.door.writes(), site.door.events())
        await stopped(running)

    run_story(story, tmp_path)


@pytest.mark.slow
def test_a_server_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.close()
        running = await site.controller(WRITERS)
        await running.said("failed")
        await site.open()
        await _queues(site)
        await site.apply(job("one"))
        await site.until(JOBS, Key("team", "one"), _started)
        await stopped(running)

    run_story(story, tmp_path)


def test_kinds_that_the_server_does_not_have_are_done_without(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.door.refused = {"/cohorts": 403, "/topologies": 404}
        site.door.hidden = {"cohorts", "topologies"}
        running = await site.controller(WRITERS)
        await _queues(site)
        await site.apply(job("one"))
        await site.until(JOBS, Key("team", "one"), _started)
        await running.said("the server has no cohorts.kueue.x-k8s.io")
        await running.said("the server has no topologies.kueue.x-k8s.io")
        await stopped(running)

    run_story(story, tmp_path)


def test_without_rights_to_jobs_the_rest_goes_on(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.door.refused = {"/jobs": 403}
        running = await site.controller(WRITERS)
        await _queues(site)
        await site.admin.create(WORKLOADS, _workload("alone"))
        await site.until(WORKLOADS, Key("team", "alone"), _admitted)
        await running.said(
            "not allowed to watch jobs.batch: grant get, list and watch on this resource"
        )
        await stopped(running)

    run_story(story, tmp_path)


def test_a_kind_that_matters_and_may_not_be_read_is_waited_for(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.door.refused = {"/cohorts": 403}
        running = await site.controller(WRITERS)
        await _queues(site)
        await site.apply(job("one"))
        await running.said("not allowed to watch cohorts.kueue.x-k8s.io")
        await running.said("leading")
        assert [] == site.door.writes()
        site.door.refused = {}
        await site.until(JOBS, Key("team", "one"), _started)
        await stopped(running)

    run_story(story, tmp_path)


def test_without_the_scheduler_somebody_else_decides(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller("--parts=core,jobs")
        await _queues(site)
        await site.apply(job("one"))
        workload = await site.workload_of("one")
        await _admit(site, workload)
        await site.until(JOBS, Key("team", "one"), _started)
        await stopped(running)

    run_story(story, tmp_path)


def test_the_scheduler_alone_writes_decisions_and_touches_no_job(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller("--parts=scheduler")
        await _queues(site)
        await site.apply(job("one"))
        await site.admin.create(WORKLOADS, _workload("alone"))
        reserved = await site.until(WORKLOADS, Key("team", "alone"), _admitted)
        assert "cq" == reserved["status"]["admission"]["clusterQueue"]
        assert {"PATCH"} == {method for method, path in site.door.writes()}
        await stopped(running)

    run_story(story, tmp_path)


def test_no_secret_is_ever_said_however_much_is_asked_for(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(WRITERS, "--zap-log-level=9")
        await running.said("leading")
        await site.close()
        await site.open()
        await _queues(site)
        await site.apply(job("one"))
        await site.until(JOBS, Key("team", "one"), _started)
        await stopped(running)
        assert TOKEN not in str(running)

    run_story(story, tmp_path)


def test_probes_answer_before_anything_else_works(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.close()
        running = await site.controller(WRITERS)
        port = await running.port("probes")
        assert ("200", "ok") == await _asked(port, "/healthz")
        assert ("200", "ok") == await _asked(port, "/readyz")
        assert "404" == (await _asked(port, "/nothing"))[0]
        await stopped(running)

    run_story(story, tmp_path)


async def _asked(port: int, path: str) -> tuple[str, str]:
    """Status and body of a plain GET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return head.split()[1], body


async def _queues(site: Site, cpu: int = 4) -> None:
    await site.apply(flavor(), queue("cq", cpu), local_queue())


def _started(found: Json) -> bool:
    return not found["spec"].get("suspend")


def _admitted(workload: Json) -> bool:
    return condition(workload, "Admitted").get("status") == "True"


def _waits(workload: Json) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "False"


def _told_all(cluster_queue: Json) -> bool:
    shown = cluster_queue.get("status") or {}
    return (shown.get("pendingWorkloads"), shown.get("admittedWorkloads")) == (1, 1)


def _renewed(last: str, lease: Json) -> bool:
    return bool(lease["spec"]["renewTime"] > last)


async def _renewals(site: Site, count: int) -> None:
    """Let so many renewals of the lease pass."""
    for _ in range(count):
        last = (await site.admin.get(LEASES, LEASE))["spec"]["renewTime"]
        await site.until(LEASES, LEASE, partial(_renewed, last))


async def _reserved(site: Site) -> int:
    found = (await site.admin.list(WORKLOADS)).items
    return sum(condition(each, "QuotaReserved").get("status") == "True" for each in found)


def _workload(name: str) -> Json:
    requests = {"requests": {"cpu": "1"}}
    container = {"name": "c", "image": "i", "resources": requests}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": "team", "name": name},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


async def _admit(site: Site, workload: Json) -> None:
    """Write what a scheduler would."""
    assignment = {
        "name": workload["spec"]["podSets"][0]["name"],
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": "1"},
        "count": 1,
    }
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "by hand",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        "conditions": [reserved, reserved | {"type": "Admitted", "reason": "Admitted"}],
    }
    meta = workload["metadata"]
    key = Key(meta["namespace"], meta["name"])
    await site.admin.patch(WORKLOADS, key, {"status": status}, subresource="status")
