# SPDX-License-Identifier: Apache-2.0
"""Despite rejected writes, truncated watches and restarts, every Job finishes within quota."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.objects import flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.kube.errors import ApiError, Conflict, ServerError
from kuota.kube.resources import JOBS

CPUS = 6
_VERBS = [("status", "Workload"), ("patch", "Workload"), ("create", "Workload")]
_VERBS += [("patch", "Job"), ("status", "Job")]


def _error(chance: random.Random) -> ApiError:
    if chance.random() < 0.5:
        return Conflict(409, "Conflict", "somebody was faster")
    return ServerError(500, "InternalError", "out of order")


async def _disturb(stage: Stage, chance: random.Random) -> None:
    what = chance.random()
    if what < 0.3:
        await stage.restart()
    elif what < 0.8:
        planned: list[Exception] = [_error(chance) for _ in range(chance.randint(1, 4))]
        stage.api.refuse[chance.choice(_VERBS)] = planned
    await stage.rest(chance.choice([0.0, 0.05, 1.0, 20.0]))


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 10_000))
def test_all_jobs_end_and_never_too_many_run(seed: int) -> None:
    chance = random.Random(seed)

    async def scene(stage: Stage) -> None:
        stage.kubelet.grace_s = chance.choice([0.0, 5.0])
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(), workload_class("high", 10), local_queue())
        await stage.api.apply(queue("cq", CPUS, preemption=preemption))
        names = [f"j{number}" for number in range(8)]
        for name in names:
            labels = {"kueue.x-k8s.io/priority-class": "high"} if chance.random() < 0.3 else {}
            await stage.api.apply(job(name, "1", parallelism=chance.randint(1, 4), labels=labels))
            await _disturb(stage, chance)
        stage.api.refuse.clear()
        for _ in range(40):
            await stage.rest(100)
            for name in names:
                found = stage.job(name)
                status = found.get("status") or {}
                if status.get("active") and not status.get("conditions"):
                    await stage.kubelet.succeed(name, found["spec"]["parallelism"])
        await stage.rest(100)
        assert {"True/Succeeded"} == {stage.says(name, "Finished") for name in names}
        assert stage.kubelet.most_pods <= CPUS
        assert 8 == len(stage.api.all(JOBS))

    run_scene(scene)
