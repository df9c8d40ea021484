# SPDX-License-Identifier: Apache-2.0
"""The job that a workload belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.cli.workload_list import WorkloadFilter
from kuota.view.workload_state import owner

_PREFIX = "kueue.x-k8s.io/"


def workload(*owners: tuple[str, str], controller: int | None = None, **notes: str) -> Json:
    references: list[dict[str, Any]] = [{"kind": kind, "name": name} for kind, name in owners]
    if controller is not None:
        references[controller]["controller"] = True
    annotations = {f"{_PREFIX}{key.replace('_', '-')}": value for key, value in notes.items()}
    meta = {"name": "wl", "ownerReferences": references, "annotations": annotations}
    return {"metadata": meta, "spec": {}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (workload(), ("", "")),
        (workload(("Job", "j"), controller=0), ("Job", "j")),
        (workload(("Pod", "p"), ("Job", "j"), controller=1), ("Job", "j")),
        (workload(("Pod", "p")), ("Pod", "p")),
        (workload(("Pod", "p1"), ("Pod", "p2"), is_group_workload="true"), ("PodGroup", "wl")),
        (
            workload(
                *(("Pod", "p"), ("StatefulSet", "db")),
                is_group_workload="true",
                job_owner_gvk="apps/v1, Kind=StatefulSet",
                job_owner_name="db",
            ),
            ("StatefulSet", "db"),
        ),
    ],
)
def test_the_job_of_a_workload(given: Json, expected: tuple[str, str]) -> None:
    assert expected == owner(given)


@pytest.mark.parametrize("words", ["pod/p1", "pods/p2", "podgroup/wl"])
def test_every_pod_of_a_group_selects_its_workload(words: str) -> None:
    group = workload(("Pod", "p1"), ("Pod", "p2"), is_group_workload="true")
    assert WorkloadFilter(owner=words).wants(group, "", {})
    assert not WorkloadFilter(owner="pod/p3").wants(group, "", {})
