# SPDX-License-Identifier: Apache-2.0
"""What decisions mean for the workload they are about."""

from __future__ import annotations

import pytest

from build import job
from kuota.engine.assignment import AssignmentMode, WorkloadAssignment
from kuota.engine.decisions import Admit


@pytest.mark.parametrize(
    ("required", "listed", "admitted"),
    [
        ((), {}, True),
        (("budget",), {}, False),
        (("budget",), {"budget": "Pending"}, False),
        (("budget",), {"budget": "Ready"}, True),
        (("budget",), {"other": "Ready"}, False),
        ((), {"other": "Pending"}, False),
        (("budget",), {"budget": "Ready", "other": "Pending"}, False),
    ],
)
def test_a_workload_is_admitted_at_once_if_all_of_its_checks_are_ready(
    required: tuple[str, ...], listed: dict[str, str], admitted: bool
) -> None:
    """Like Kueue, this also counts listed checks that the queue does not require any more."""
    decision = Admit(
        workload=job("w", checks=listed),
        cluster_queue="q",
        assignment=WorkloadAssignment(pod_sets=(), usage={}, mode=AssignmentMode.FIT),
        checks=required,
    )
    assert admitted == decision.admitted
