# SPDX-License-Identifier: Apache-2.0
"""The history of jobs: who may read it, and that it agrees with the truth after kills."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from kuota.api.base import Json
from kuota.history.address import SqliteFile
from kuota.history.database import HistoryWriter, RecordingProgress
from kuota.history.records import JobRecord, Run
from kuota.history.turns import ReportTurns
from kuota.server.requests import User
from kuota.up.history_extension import HistoryExtension
from server.served import Local, namespace
from up.lab import job, queues
from up.machine import Machine

ROOT = "/apis/history.kuota.dev/v1alpha1"
ANN = User("ann", ("vision", "system:authenticated"))
GPU = "nvidia.com/gpu"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Local]:
    """A server whose history has one job of each of two teams."""
    path = SqliteFile(str(tmp_path / "history.db"))
    file = HistoryWriter(path)
    for team in ("vision", "speech"):
        run = Run(1000.0, 1000.0, "cq", {"a100": {GPU: 2}}, 1000.0 + 3600, "Finished")
        record = JobRecord(team, team, "w", "Job", f"of-{team}", "q", "ann", 900.0, (run,), 4600.0)
        file.write(record, progress=RecordingProgress("1", 0.0))
    file.close()
    local = Local()
    local.api.extensions.append(HistoryExtension(path, lambda: 10_000.0, local.api.roles))
    for team in ("vision", "speech"):
        local.ask("POST", "/api/v1/namespaces", namespace(team, team))
    yield local
    local.close()


def test_members_read_the_history_of_their_own_namespace_only(api: Local) -> None:
    (found,) = api.ask("GET", f"{ROOT}/namespaces/vision/jobs", user=ANN)["items"]
    assert ("of-vision", 2.0) == (found["job"], found["resources"][GPU]["hours"])
    (account,) = api.ask("GET", f"{ROOT}/namespaces/vision/usage", user=ANN)["items"]
    assert ("vision", 1) == (account["group"], account["jobs"])
    for hidden in ("namespaces/speech/jobs", "namespaces/speech/usage", "jobs", "usage"):
        assert 403 == api.refusal("GET", f"{ROOT}/{hidden}", user=ANN)["code"]
    assert 2 == len(api.ask("GET", f"{ROOT}/jobs")["items"])


BOTH = User("ben", ("vision", "speech", "system:authenticated"))


def test_a_report_about_several_namespaces_needs_permission_for_each(api: Local) -> None:
    both = {"namespaces": "vision,speech", "by": "user"}
    (account,) = api.ask("GET", f"{ROOT}/usage", user=BOTH, **both)["items"]
    assert ("ann", 2, 4.0) == (
        account["group"],
        account["jobs"],
        account["resources"][GPU]["hours"],
    )
    for report in ("usage", "jobs", "waste", "series", "charges"):
        refused = api.refusal("GET", f"{ROOT}/{report}", user=ANN, **both)
        assert (403, True) == (refused["code"], "speech" in refused["message"])
    for nothing in ("", ","):
        assert 403 == api.refusal("GET", f"{ROOT}/jobs", user=BOTH, namespaces=nothing)["code"]


def test_a_workload_is_selected_with_its_runs_within_the_namespace_only(api: Local) -> None:
    path = f"{ROOT}/namespaces/vision/jobs"
    (found,) = api.ask("GET", path, user=ANN, uid="vision")["items"]
    (run,) = found["runs"]
    times = "1970-01-01T00:16:40Z", "1970-01-01T01:16:40Z"
    assert (*times, "Finished", "cq") == (
        *(run["started"], run["ended"]),
        *(run["ending"], run["clusterQueue"]),
    )
    for hidden in ("speech", "absent"):
        assert [] == api.ask("GET", path, user=ANN, uid=hidden)["items"]


@pytest.mark.parametrize("path", ["", "/jobs/x", "/namespaces/vision", "/namespaces//x/jobs"])
def test_other_paths_do_not_exist(api: Local, path: str) -> None:
    assert 404 == api.refusal("GET", f"{ROOT}{path}")["code"]


def test_service_accounts_and_their_user_take_turns(
    api: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: list[str] = []

    async def run(_: ReportTurns, user: str, work: Callable[[], Json]) -> Json:
        users.append(user)
        return work()

    monkeypatch.setattr(ReportTurns, "run", run)
    robot = User("system:serviceaccount:vision:robot", ANN.groups, issuer="ann")
    for each in (ANN, robot):
        api.ask("GET", f"{ROOT}/namespaces/vision/jobs", user=each)
    assert ["ann", "ann"] == users


def test_the_history_cannot_be_written(api: Local) -> None:
    assert 405 == api.refusal("DELETE", f"{ROOT}/jobs")["code"]


def test_all_faults_of_a_query_are_reported_at_once(api: Local) -> None:
    wrong = {"since": "x", "until": "99999999999999", "by": "moon", "limit": "٣"}
    words = api.refusal("GET", f"{ROOT}/usage", **wrong)["message"]
    assert all(f"{name}: " in words for name in wrong)
    assert 400 == api.refusal("GET", f"{ROOT}/jobs", since="2026-02-01", until="2026-01-01")["code"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": "000000001999999999999"},
        {"limit": "1" * 5000},
        {"since": "0001-01-01T00:00:00+23:59"},
        {"until": "9999-12-31T23:59:59-23:59"},
    ],
)
def test_numbers_and_times_beyond_all_bounds_are_rejected(api: Local, wrong: Json) -> None:
    assert 400 == api.refusal("GET", f"{ROOT}/jobs", **wrong)["code"]


def test_a_limit_leaves_out_the_oldest_jobs(api: Local) -> None:
    found = api.ask("GET", f"{ROOT}/jobs", limit="1")
    assert (1, 1) == (len(found["items"]), found["remaining"])


def test_a_file_that_cannot_be_read_is_reported(api: Local, tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"no database" * 1000)
    refused = api.refusal("GET", f"{ROOT}/jobs")
    assert 503 == refused["code"]
    assert "cannot be read" in refused["message"]


def _seconds(workload: Json, start: str, end: str) -> float:
    times = {each["type"]: each["lastTransitionTime"] for each in workload["status"]["conditions"]}
    first, last = (datetime.fromisoformat(times[each]) for each in (start, end))
    return (last - first).total_seconds()


@pytest.mark.slow
def test_the_accounts_agree_with_the_truth_after_kills(machine: Machine) -> None:
    machine.apply(queues())
    truth: dict[str, float] = {}
    for number in range(3):
        name = f"j{number}"
        machine.apply(job(name, f"sleep {number + 1}"))
        machine.started(name)
        machine.kill()
        machine.up("--gpus", "2")
        machine.wait(f"job/{name}", "condition=complete")
        machine.wait("workloads --all", "condition=Finished")
        (found,) = (
            each
            for each in machine.get("workloads")["items"]
            if each["metadata"]["ownerReferences"][0]["name"] == name
        )
        truth[name] = _seconds(found, "Admitted", "Finished")
        machine.kubectl("delete", "job", name)
        machine.kill()
        machine.up("--gpus", "2")
    machine.apply(job("last", "true"))
    machine.wait("job/last", "condition=complete")
    rows = json.loads(machine.kuota("history", "-o", "json"))["items"]
    found = {each["job"]: each for each in rows}
    assert set(truth) < set(found)
    for name, seconds in truth.items():
        assert seconds == found[name]["ranSeconds"]
        assert ("Succeeded", "admin") == (found[name]["outcome"], found[name]["user"])
    (account,) = csv.DictReader(machine.kuota("usage", "--by", "user", "-o", "csv").splitlines())
    assert "admin" == account["group"]
    hours = float(account[f"{GPU} hours"])
    ran = sum(each["ranSeconds"] for each in rows)
    assert ran / 3600 == pytest.approx(hours, abs=1e-5)
