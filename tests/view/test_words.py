# SPDX-License-Identifier: Apache-2.0
"""What people read about a workload that no queue holds."""

from __future__ import annotations

import pytest

from build import job, key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
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
