# SPDX-License-Identifier: Apache-2.0
"""Our own cases pass, and each of their expectations is compared.

The recorded cases are not part of the repository. These are written by hand in the same format, so
that a checkout alone can test the adapters: a case fails if one of its expectations is altered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.case import load

OWN_CASES = Path(__file__).with_name("own_cases")
SHRUNK = "scheduler/TestSchedule/own-1-shrunk-onto-the-flavor-with-room"
RECLAIMED = "scheduler/TestSchedule/own-2-lent-quota-is-reclaimed"
LIMITED = "scheduler/TestSchedule/own-3-a-pod-above-the-limit-range"
LATEST = "preemption/TestPreemption/own-1-the-latest-of-equals-gives-way"
SPARED = "preemption/TestPreemption/own-2-a-borrower-of-higher-priority-stays"

ALTERATIONS = [
    pytest.param(SHRUNK, "wantAssignments.vision/resnet.clusterQueue", "speech", id="queue"),
    pytest.param(
        SHRUNK,
        "wantAssignments.vision/resnet.podSetAssignments.0.flavors.gpu",
        "a100",
        id="flavor",
    ),
    pytest.param(
        SHRUNK, "wantAssignments.vision/resnet.podSetAssignments.0.count", 6, id="pod count"
    ),
    pytest.param(
        SHRUNK,
        "wantWorkloads.0.status.admission.podSetAssignments.0.resourceUsage.gpu",
        "12",
        id="usage",
    ),
    pytest.param(SHRUNK, "wantWorkloads.0.status.conditions.1.status", "False", id="status"),
    pytest.param(SHRUNK, "wantEvents.0.reason", "Pending", id="event"),
    pytest.param(SHRUNK, "wantWorkloads", [], id="a workload missing"),
    pytest.param(RECLAIMED, "wantLeft", {"vision": []}, id="left in the queue"),
    pytest.param(
        RECLAIMED, "wantInadmissibleLeft", {"vision": ["vision/urgent"]}, id="inadmissible instead"
    ),
    pytest.param(RECLAIMED, "wantAssignments", {}, id="an admission missing"),
    pytest.param(
        RECLAIMED,
        "wantWorkloads.0.status.conditions.3.reason",
        "InClusterQueue",
        id="why the victim",
    ),
    pytest.param(
        RECLAIMED,
        "wantWorkloads.1.status.conditions.0.reason",
        "WaitingForQuota",
        id="why it waits",
    ),
    pytest.param(LIMITED, "wantEvents.0.type", "Normal", id="event type"),
    pytest.param(LIMITED, "wantLeft", None, id="still queued"),
    pytest.param(LATEST, "wantPreempted", 2, id="victims counted"),
    pytest.param(LATEST, "wantWorkloads.1.status.conditions.2.status", "False", id="not evicted"),
    pytest.param(LATEST, "wantWorkloads.1.metadata.name", "old", id="another victim"),
    pytest.param(
        LATEST,
        "wantWorkloads.1.status.conditions.3.reason",
        "InCohortReclamation",
        id="why this victim",
    ),
    pytest.param(SPARED, "wantPreempted", 1, id="a victim too many"),
    pytest.param(
        SPARED, "wantWorkloads.0.status.conditions.0.status", "False", id="spared yet not"
    ),
]


def replace(value: Any, path: str, new: Any) -> None:
    """Put `new` at the dotted `path` inside `value`, where something else must stand now."""
    *way, last = path.split(".")
    for step in way:
        value = value[int(step)] if isinstance(value, list) else value[step]
    key = int(last) if isinstance(value, list) else last
    assert value[key] != new
    value[key] = new


def test_our_own_cases_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(OWN_CASES)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"PASS {LATEST}",
        f"PASS {SPARED}",
        f"PASS {SHRUNK}",
        f"PASS {RECLAIMED}",
        f"PASS {LIMITED}",
        "3 passed cases exercise a product path",
        "1 passed case exercises a pure function",
        "1 passed case exercises a negative: a rejection, or nothing happens",
        "5 passed, 0 failed, 0 skipped",
    ]


def test_the_limit_range_of_a_case_reaches_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = [case for case in load(OWN_CASES) if case.id == LIMITED]
    del case.record["inputs"]["objects"]
    suite_file = tmp_path / f"{case.suite}.jsonl"
    suite_file.parent.mkdir(parents=True)
    suite_file.write_text(json.dumps(case.record))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"FAIL {LIMITED}: workloads")


@pytest.mark.parametrize(("case_id", "path", "new"), ALTERATIONS)
def test_an_altered_expectation_fails_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case_id: str, path: str, new: Any
) -> None:
    (case,) = [case for case in load(OWN_CASES) if case.id == case_id]
    replace(case.record["expected"], path, new)
    suite_file = tmp_path / f"{case.suite}.jsonl"
    suite_file.parent.mkdir(parents=True)
    suite_file.write_text(json.dumps(case.record))
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"FAIL {case_id}: ")
    assert "no adapter" not in out
    assert "Error:" not in out
