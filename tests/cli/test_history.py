# SPDX-License-Identifier: Apache-2.0
"""The output of `kuota history`, `kuota usage` and `kuota export focus`."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.cluster import MEMBER_TOKEN, TOKEN, Cluster
from history.focus_rules import faults
from kuota.history.address import SqliteFile
from kuota.history.database import HistoryWriter, RecordingProgress
from kuota.history.quotas import QuotaFact, QuotaKind
from kuota.history.records import Interval, JobRecord, RecordedOutcome, Run
from kuota.kube.resources import NAMESPACES
from kuota.up.history_extension import HistoryExtension

GPU = "nvidia.com/gpu"
HOUR = 3600.0
START = datetime(2026, 1, 10, 22, tzinfo=UTC).timestamp()
NOW = START + 50 * HOUR
JANUARY = ("--since", "2026-01-01", "--until", "2026-02-01")


def record(team: str, number: int, preempted: bool = False) -> JobRecord:
    """Return a job that held two GPUs for four hours, an hour of which may be lost."""
    amounts = {"a100": {GPU: 2, "memory": 2**30}}
    end = START + 4 * HOUR
    runs: tuple[Run, ...] = (Run(START, START, "lab", amounts, end, "Finished"),)
    if preempted:
        first = Run(START, START, "lab", amounts, START + HOUR, "Preempted")
        second = Run(START + HOUR, START + HOUR, "lab", amounts, end, "Finished")
        runs = (first, second)
    return JobRecord(
        f"{team}{number}", team, f"job-j{number}", "Job", f"j{number}", "gpu", "ann",
        START - HOUR, runs, end, RecordedOutcome.SUCCEEDED, labels={"project": "x"},
    )  # fmt: skip


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Cluster:
    path = SqliteFile(str(tmp_path / "history.db"))
    file = HistoryWriter(path)
    jobs = record("vision", 1, preempted=True), record("speech", 2)
    file.write(*jobs, progress=RecordingProgress("1", NOW))
    file.close()
    cluster.api.extensions.append(HistoryExtension(path, lambda: NOW, cluster.api.roles))
    return cluster


def test_history_shows_outcome_hours_preemptions_and_lost_work(server: Cluster) -> None:
    first, *rows = server.kuota("history", "-A", *JANUARY).splitlines()
    assert ["JOB", "USER", "QUEUE", "OUTCOME", "FINISHED"] == first.split()[1:6]
    assert first.split()[-4:] == ["RAN", "USED", "PREEMPTED", "LOST"]
    vision = next(each for each in rows if each.startswith("vision"))
    assert "ann" in vision
    assert "Succeeded" in vision
    assert vision.endswith("8.00 gpu-hours   1           2.00 gpu-hours")


def test_a_preempted_job_that_has_not_resumed_waits(server: Cluster, tmp_path: Path) -> None:
    def unfinished(name: str, *runs: Run, **fields: object) -> JobRecord:
        named = replace(record("vision", 1), uid=name, job=name, workload=name, **fields)
        return replace(named, runs=runs, finished=None, outcome=RecordedOutcome.NONE)

    stopped = Run(START, START, "lab", {}, START + HOUR, "Preempted")
    running = Run(START + HOUR, START + HOUR, "lab", {})
    file = HistoryWriter(SqliteFile(str(tmp_path / "history.db")))
    file.write(
        unfinished("new"),
        unfinished("preempted", stopped),
        unfinished("resumed", stopped, running),
        unfinished("held", stopped, held=(Interval(START + HOUR),)),
        progress=RecordingProgress("2", NOW),
    )
    file.close()
    lines = server.kuota("history", "-A", *JANUARY).splitlines()
    expected = {"new": "Waiting", "preempted": "Waiting", "resumed": "Running"}
    expected |= {"held": "Deactivated", "j1": "Succeeded", "j2": "Succeeded"}
    assert expected == {each.split()[1]: each.split()[4] for each in lines[1:]}


def test_history_selects_jobs_by_name_and_user(server: Cluster) -> None:
    def namespaces(*args: str) -> list[str]:
        found = json.loads(server.kuota("history", "-A", *JANUARY, "-o", "json", *args))
        return [each["namespace"] for each in found["items"]]

    assert ["speech", "vision"] == sorted(namespaces("--user", "ann"))
    assert [] == namespaces("--user", "bob")
    assert ["vision"] == namespaces("j1") == namespaces("job/j1")


@pytest.mark.parametrize("command", ["history", "usage"])
def test_a_period_that_ends_before_it_starts_is_wrong_use(server: Cluster, command: str) -> None:
    said = server.kuota(command, "--since", "1d", "--until", "2d", code=2)
    assert said.endswith("--since must be before --until, and in the past\n")


@pytest.mark.parametrize("form", ["table", "wide", "csv", "json", "yaml"])
@pytest.mark.parametrize("command", ["history", "usage"])
def test_every_format_is_available(server: Cluster, command: str, form: str) -> None:
    sought = "j1" if command == "history" else "vision"
    assert sought in server.kuota(command, "-n", "vision", *JANUARY, "-o", form)


def test_an_empty_report_names_its_namespace(server: Cluster) -> None:
    said = server.hints("usage", "-n", "nobody", *JANUARY)
    assert "Nothing was used in this period in namespace nobody; -A shows all.\n" == said


@pytest.mark.parametrize("by", ["team", "queue", "user", "flavor"])
def test_usage_adds_up_by_every_group(server: Cluster, by: str) -> None:
    found = csv.DictReader(
        server.kuota("usage", "-A", "--by", by, *JANUARY, "-o", "csv").splitlines()
    )
    assert 16 == sum(float(each[f"{GPU} hours"]) for each in found)


def test_a_job_that_never_ran_has_the_queue_in_which_it_waited(
    server: Cluster, tmp_path: Path
) -> None:
    def waiting(uid: str, queue: str, end: float | None) -> JobRecord:
        outcome = RecordedOutcome.NONE if end is None else RecordedOutcome.DELETED
        return JobRecord(
            uid, "vision", f"job-{uid}", "Job", uid, queue, "ann", START, (), end, outcome
        )

    file = HistoryWriter(SqliteFile(str(tmp_path / "history.db")))
    jobs = waiting("early", "gpu", START + 1), waiting("late", "gpu", None)
    file.write(*jobs, waiting("lost", "typo", None), progress=RecordingProgress("2", NOW))
    targets = ("lab", START + 0.5), ("hall", START + 2), (None, START + 3)
    file.write_quotas(
        QuotaFact(QuotaKind.LOCAL_QUEUE, "vision/gpu", at, {"clusterQueue": to} if to else None)
        for to, at in targets
    )
    file.close()
    text = server.kuota("history", "-n", "vision", *JANUARY, "-o", "json")
    found = {each["job"]: each.get("clusterQueue", "") for each in json.loads(text)["items"]}
    assert {"early": "lab", "late": "hall", "lost": "", "j1": "lab"} == found
    lines = server.kuota("history", "-n", "vision", *JANUARY, "-o", "wide").splitlines()
    (lost,) = (each.split() for each in lines if each.startswith("lost"))
    assert ["lost", "ann", "typo", "Waiting"] == lost[:4]
    text = server.kuota("usage", "-n", "vision", *JANUARY, "--by", "queue", "-o", "json")
    jobs_of = {each["group"]: each["jobs"] for each in json.loads(text)["items"]}
    assert {"": 1, "hall": 1, "lab": 2} == jobs_of


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\n", " =", "\uff1d"])
def test_no_cell_of_a_csv_begins_like_a_formula(
    server: Cluster, tmp_path: Path, begin: str
) -> None:
    file = HistoryWriter(SqliteFile(str(tmp_path / "history.db")))
    user = f"{begin}HYPERLINK(1)"
    file.write(
        replace(record("vision", 1), user=user, cause=user), progress=RecordingProgress("2", NOW)
    )
    file.close()
    for command in (
        ("history", "-n", "vision", "-o", "csv"),
        ("usage", "-n", "vision", "--by", "user", "-o", "csv"),
        ("export", "focus", "-n", "vision"),
    ):
        rows = list(csv.reader(StringIO(server.kuota(*command, *JANUARY))))
        cells = [cell for row in rows for cell in row]
        assert f"'{user}" in cells, command
        assert not [cell for cell in cells if cell.startswith(begin)]


def test_the_future_is_not_counted(server: Cluster) -> None:
    period = "--since", "2026-01-01", "--until", "2030-01-01"
    found = json.loads(server.kuota("usage", "-A", *period, "-o", "json"))
    assert "2026-01-13T00:00:00Z" == found["until"]


def test_the_export_is_a_focus_dataset_of_whole_days(server: Cluster) -> None:
    text = server.kuota("export", "focus", "-A", *JANUARY, "--resource", GPU)
    found = list(csv.DictReader(text.splitlines()))
    assert [] == faults(list(found[0]), found)
    days = {(e["SubAccountId"], e["ChargePeriodStart"][:10]): e["ConsumedQuantity"] for e in found}
    assert {
        ("speech", "2026-01-10"): "4.0",
        ("speech", "2026-01-11"): "4.0",
        ("vision", "2026-01-10"): "4.0",
        ("vision", "2026-01-11"): "4.0",
    } == days
    assert '{"project": "x"}' == found[0]["Tags"]
    assert {"0.0"} == {each["BilledCost"] for each in found}


def test_the_export_multiplies_prices(server: Cluster) -> None:
    prices = server.folder / "prices.yaml"
    prices.write_text("currency: EUR\nprices:\n- {resource: nvidia.com/gpu, perHour: 1.5}\n")
    text = server.kuota("export", "focus", "-n", "vision", *JANUARY, "--prices", str(prices))
    found = list(csv.DictReader(text.splitlines()))
    assert [] == faults(list(found[0]), found)
    assert 12 == sum(float(each["BilledCost"]) for each in found)


def test_the_export_has_metadata_of_its_columns(server: Cluster) -> None:
    file = server.folder / "metadata.json"
    text = server.kuota("export", "focus", "-A", *JANUARY, "--metadata", str(file))
    found = json.loads(file.read_text())
    assert ("Kuota", "1.2") == (found["DataGenerator"], found["FocusVersion"])
    columns = [each["ColumnName"] for each in found["ColumnDefinition"]]
    assert next(csv.reader(text.splitlines())) == columns
    missing = server.folder / "none" / "metadata.json"
    words = server.kuota("export", "focus", "-A", *JANUARY, "--metadata", str(missing), code=1)
    assert str(missing) in words


def test_exports_that_follow_one_another_neither_overlap_nor_leave_a_gap(server: Cluster) -> None:
    hours = "--charge-period", "hour", "--resource", GPU
    times = "2026-01-10T00:00", "2026-01-11T00:30", "2026-01-12"
    parts = [
        list(csv.DictReader(server.kuota(
            "export", "focus", "-A", "--since", since, "--until", until, *hours
        ).splitlines()))
        for since, until in pairwise(times)
    ]  # fmt: skip
    assert [4, 4] == [len(each) for each in parts]
    assert 16 == sum(float(row["ConsumedQuantity"]) for part in parts for row in part)


def test_faults_of_the_export_are_explained(server: Cluster) -> None:
    assert "no complete day" in server.kuota("export", "focus", "--since", "0s", code=2)
    prices = server.folder / "prices.yaml"
    prices.write_text("currency: euro\nprices: [{resource: '', perHour: x}]")
    words = server.kuota("export", "focus", "--prices", str(prices), code=1)
    assert all(each in words for each in ("currency", "prices[0].perHour", "prices[0].resource"))
    assert "missing.yaml" in server.kuota("export", "focus", "--prices", "missing.yaml", code=1)


def test_members_get_all_namespaces_of_their_teams(server: Cluster, tmp_path: Path) -> None:
    file = HistoryWriter(SqliteFile(str(tmp_path / "history.db")))
    file.write(record("vision-eval", 3), progress=RecordingProgress("2", NOW))
    file.close()
    text = server.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN)
    server.kubeconfig.write_text(text)
    assert "forbidden" in server.kuota("history", "-A", *JANUARY, code=1)
    for name in ("vision", "vision-eval"):
        labels = {"kuota.dev/team": "vision"}
        server.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    jobs = json.loads(server.kuota("history", "-A", *JANUARY, "-o", "json"))["items"]
    assert ["vision", "vision-eval"] == sorted(each["namespace"] for each in jobs)
    (account,) = json.loads(
        server.kuota("usage", "-A", "--by", "user", *JANUARY, "-o", "json")
    )["items"]  # fmt: skip
    assert (2, 16.0) == (account["jobs"], account["resources"][GPU]["hours"])
    assert "speech" not in server.kuota("usage", "-A", "--waste", *JANUARY, "-o", "json")
    text = server.kuota("export", "focus", "-A", *JANUARY, "--resource", GPU)
    charged = [float(each["ConsumedQuantity"]) for each in csv.DictReader(text.splitlines())]
    assert 16.0 == sum(charged)


@pytest.mark.parametrize("form", ["table", "wide", "csv", "json", "yaml"])
def test_waste_is_shown_by_cause(server: Cluster, form: str) -> None:
    printed = server.kuota("usage", "-A", "--waste", *JANUARY, "-o", form)
    assert "vision" in printed
    assert "speech" not in printed
    if form == "table":
        title, row = printed.splitlines()
        assert title.split() == [
            "TEAM", "RESOURCE-HOURS", "FREE", "PREEMPTED", "EVICTED", "FAILED", "START", "IDLE",
            "TOTAL",
        ]  # fmt: skip
        assert ["vision", "gpu", "0.00", "2.00", "0.00", "0.00", "0.00", "2.00"] == row.split()
    if form == "csv":
        (gpu,) = (e for e in csv.DictReader(printed.splitlines()) if e["resource"] == GPU)
        assert "2.000000" == gpu["preempted"]


def test_waste_is_reported_by_team_alone(server: Cluster) -> None:
    assert "by team" in server.kuota("usage", "--waste", "--by", "user", code=2)


def test_a_server_without_a_history_is_named(cluster: Cluster) -> None:
    assert "keeps no history" in cluster.kuota("history", code=1)
