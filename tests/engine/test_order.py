# SPDX-License-Identifier: Apache-2.0
"""In which order heads of different queues are settled."""

from __future__ import annotations

import pytest

from build import flavor, job, local_queue, namespace, queue
from kuota.api.gates import Gates
from kuota.engine.decisions import Admit
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.engine.policy import Policy


@pytest.mark.parametrize("fair", [None, ()], ids=["classical", "fair"])
@pytest.mark.parametrize(("by_priority", "first"), [(True, "urgent"), (False, "early")])
def test_between_queues_priority_counts_only_while_its_gate_is_on(
    fair: tuple[str, ...] | None, by_priority: bool, first: str
) -> None:
    gates = Gates.of({"PrioritySortingWithinCohort": by_priority}, check=False)
    engine = Engine(Policy(gates=gates, fair_sharing=fair))
    for value in (
        namespace(),
        flavor(),
        queue("a", gpu=0, cohort="team"),
        queue("b", gpu=0, cohort="team"),
        queue("lender", gpu=1, cohort="team"),
        local_queue("a"),
        local_queue("b"),
        job("early", queue="a", gpu=1, created=1.0),
        job("urgent", queue="b", gpu=1, created=2.0, priority=1),
    ):
        engine.apply(ObjectStored(value=value), 10.0)

    outcome = engine.cycle(10.0)

    admitted = [each.workload.key.name for each in outcome.decisions if isinstance(each, Admit)]
    assert [first] == admitted
