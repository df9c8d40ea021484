# SPDX-License-Identifier: Apache-2.0
"""Elastic Jobs under random resizes, evictions and deletions: quota is never charged twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.objects import condition, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from control.test_elastic_jobs import elastic, used
from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS, key_of

QUOTA = 6
CLASS = "kueue.x-k8s.io/priority-class"
NAMES = ("a", "b")

Step = tuple[str, str, int]
_steps = st.tuples(
    st.sampled_from(
        ["resize", "resize", "resize", "drain", "resume", "preempt", "delete", "pause"]
    ),
    st.sampled_from(NAMES),
    st.integers(1, 7),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(_steps, min_size=1, max_size=12), st.sampled_from([0.0, 2.0]))
def test_a_job_has_at_most_one_charged_slice_and_one_pending_replacement(
    steps: Sequence[Step], grace_s: float
) -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.grace_s = grace_s
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(), queue("cq", QUOTA, preemption=preemption), local_queue())
        await stage.api.apply(workload_class("high", 9), *(elastic(name, 2) for name in NAMES))
        await stage.rest()
        for number, step in enumerate(steps):
            await _taken(stage, step, number)
            _check(stage)
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.rest(30)
        _check(stage)

    run_scene(scene)


async def _taken(stage: Stage, step: Step, number: int) -> None:
    what, name, size = step
    if what == "resize":
        await stage.edit(JOBS, name, {"spec": {"parallelism": size}})
    elif what in ("drain", "resume"):
        policy = "HoldAndDrain" if what == "drain" else "None"
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": policy}})
    elif what == "preempt":
        await stage.api.apply(job(f"high-{number}", parallelism=size, labels={CLASS: "high"}))
    elif what == "delete":
        for each in stage.workloads(name)[-1:]:
            await stage.api.delete(WORKLOADS, key_of(each))
    await stage.rest(0.5 if what == "pause" else 5)


def _check(stage: Stage) -> None:
    for name in NAMES:
        slices = [each for each in stage.workloads(name) if not condition(each, "Finished")]
        live = [each for each in slices if condition(each, "Evicted").get("status") != "True"]
        charged = [each for each in live if _reserved(each)]
        assert len(charged) <= 1, f"{name} has {len(charged)} charged slices"
        assert len(live) - len(charged) <= 1, f"{name} has several pending slices"
    every = [each for each in stage.api.all(WORKLOADS) if not condition(each, "Finished")]
    total = sum(each["spec"]["podSets"][0]["count"] for each in every if _reserved(each))
    assert str(total) == used(stage)
    assert total <= QUOTA


def _reserved(workload: Json) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "True"
