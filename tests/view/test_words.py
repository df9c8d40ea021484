# SPDX-License-Identifier: Apache-2.0
"""What people read about a workload that waits."""

from __future__ import annotations

import pytest

from build import flavor, job, key, local_queue, namespace, queue
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.view.priority_classes import with_priority_classes
from kuota.view.words import help_texts, why_text


@pytest.mark.parametrize(
    ("queue", "why", "remedy"),
    [
        (
            "missing",
            "there is no LocalQueue missing in namespace default",
            "create LocalQueue missing in namespace default",
        ),
        (
            "",
            "it has no queue",
            "set the label kueue.x-k8s.io/queue-name to the name of a LocalQueue in namespace "
            "default",
        ),
    ],
)
def test_a_workload_outside_of_all_queues(queue: str, why: str, remedy: str) -> None:
    engine = Engine()
    engine.apply(ObjectStored(value=job("j", queue=queue)), 0.0)
    found = engine.explain(key("j"), 0.0)
    assert found is not None
    assert why == why_text(found)
    assert [remedy] == help_texts(found.suggestions)


def test_the_class_to_choose_is_the_lowest_that_suffices() -> None:
    engine = Engine()
    for each in (
        namespace(),
        flavor(),
        local_queue("q"),
        queue("q", gpu=1, within="LowerPriority"),
    ):
        engine.apply(ObjectStored(value=each), 0.0)
    for name in ("runs", "waits"):
        engine.apply(ObjectStored(value=job(name, queue="q", gpu=1)), 1.0)
        engine.cycle(1.0)
    found = engine.explain(key("waits"), 2.0)
    assert found is not None
    plain = "with priority 1 or more it would preempt default/runs"
    assert plain in help_texts(with_priority_classes(found, {"low": 0}).suggestions)
    chosen = with_priority_classes(found, {"low": 0, "urgent": 5000, "high": 100})
    assert (
        "with priority 1 or more, such as that of WorkloadPriorityClass high (100), it would "
        "preempt default/runs"
    ) in help_texts(chosen.suggestions)
