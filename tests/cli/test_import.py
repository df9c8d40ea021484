# SPDX-License-Identifier: Apache-2.0
"""`kuota import`: the checks, the mapping, and what is written for a running pod."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from control.fake_api import FakeApi
from control.objects import flavor, local_queue, namespace, queue
from control.virtual import VirtualClock
from kuota.api.base import Json
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.pod_import import ImportRule
from kuota.cli import import_pods
from kuota.cli.import_pods import PodsImport, _context
from kuota.kube.resources import PODS, WORKLOADS

RULES = [
    ImportRule(labels={"team": "test"}, skip=True),
    ImportRule(labels={"team": "vision"}, priority_class="high", local_queue="urgent"),
    ImportRule(labels={"team": "vision"}, local_queue="main"),
]


def pod(name: str, team: str, phase: str = "Running", **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "metadata": {"name": name, "namespace": "team", "labels": {"team": team}},
        "spec": {"containers": [container]} | spec,
        "status": {"phase": phase},
    }


class Import:
    """An import of pods in memory."""

    def __init__(self, *pods: Json) -> None:
        self.api = FakeApi(VirtualClock())
        self._pods = pods

    def run(self, rules: list[ImportRule] = RULES, *, dry_run: bool = False) -> int:
        return asyncio.run(self._run(rules, dry_run))

    async def _run(self, rules: list[ImportRule], dry_run: bool) -> int:
        await self.api.apply(namespace("team"), flavor(), queue("cq", 4), local_queue())
        for each in self._pods:
            await self.api.create(PODS, each)
        context = await _context(self.api, ["team"], rules, {"by": "import"}, AccountingContext())
        return await PodsImport(self.api, context, dry_run=dry_run).all_of(["team"], None)

    def workloads(self) -> dict[str, Json]:
        return {
            each["metadata"]["ownerReferences"][0]["name"]: each for each in self.api.all(WORKLOADS)
        }

    def labels(self, name: str) -> Json:
        found = self.api.find(PODS, name)
        assert found is not None
        labels: Json = found["metadata"]["labels"]
        return labels


def test_a_running_pod_gets_an_admitted_workload(capsys: pytest.CaptureFixture[str]) -> None:
    run = Import(pod("a", "vision"), pod("b", "test"), pod("c", "vision", phase="Succeeded"))
    assert 0 == run.run()
    assert ["a"] == list(run.workloads())
    made = run.workloads()["a"]
    assert "main" == made["spec"]["queueName"]
    assert "import" == made["metadata"]["labels"]["by"]
    conditions = {each["type"]: each["status"] for each in made["status"]["conditions"]}
    assert {"QuotaReserved": "True", "Admitted": "True"} == conditions
    (assigned,) = made["status"]["admission"]["podSetAssignments"]
    assert {"cpu": "default"} == assigned["flavors"]
    assert {"cpu": "500m"} == assigned["resourceUsage"]
    labels = run.labels("a")
    assert "main" == labels["kueue.x-k8s.io/queue-name"]
    assert "true" == labels["kueue.x-k8s.io/managed"]
    assert "2 pods: 1 imported, 1 skipped" in capsys.readouterr().out


def test_a_check_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run = Import(pod("a", "vision"))
    assert 0 == run.run(dry_run=True)
    assert {} == run.workloads()
    assert {"team": "vision"} == run.labels("a")
    assert "--dry-run=false" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pod("b", "audio"), "no rule matches"),
        (pod("b", "vision", priorityClassName="high"), "LocalQueue urgent does not exist"),
        (pod("b", "vision", priorityClassName="low"), "low"),
    ],
)
def test_nothing_is_imported_if_one_pod_fails_the_check(
    wrong: Json, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Import(pod("a", "vision"), wrong)
    assert 0 != run.run()
    assert {} == run.workloads()
    said = capsys.readouterr().err
    assert message in said
    assert "Nothing was written" in said


def test_an_import_can_be_repeated() -> None:
    run = Import(pod("a", "vision"))
    assert 0 == run.run()
    before = run.workloads()
    again = asyncio.run(_again(run.api))
    assert 0 == again
    assert before == run.workloads()


async def _again(api: FakeApi) -> int:
    context = await _context(api, ["team"], RULES, {"by": "import"}, AccountingContext())
    return await PodsImport(api, context, dry_run=False).all_of(["team"], None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queuelabel", "team", "--queuemapping", "a=b"], "name the namespaces"),
        (["-n", "team"], "use --queuelabel"),
        (["-n", "team", "--queuelabel", "team"], "use --queuelabel"),
        (["-n", "team", "--queuelabel", "team", "--queuemapping", "a"], "KEY=VALUE"),
    ],
)
def test_incomplete_options_are_explained(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(import_pods.command, arguments)
    assert 2 == result.exit_code
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match: {}", "must be a list of rules"),
        ("- match: {labels: {team: vision}}", "[0].toLocalQueue"),
        ("- {match: {labels: {team: 1}}, toLocalQueue: main}", "[0].match.labels"),
        ("- {matches: {}, toLocalQueue: main}", "[0].matches"),
        ("- {", "cannot be parsed"),
    ],
)
def test_a_bad_mapping_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(text)
    arguments = ["-n", "team", "--queuemapping-file", str(rules)]
    result = CliRunner().invoke(import_pods.command, arguments)
    assert 1 == result.exit_code
    assert message in result.output
