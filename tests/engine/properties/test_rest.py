# SPDX-License-Identifier: Apache-2.0
"""When a simulation has converged, no workload waits that could be admitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.properties.witness import CheckedSimulation
from engine.strategies import FLAVORS, SOUND, calm, clusters, crowds
from kuota.engine.decisions import Admit
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import ClusterQueue, Cohort, Preemption, ResourceGroup, Workload
from kuota.engine.policy import Policy

policies = st.sampled_from((Policy(), Policy(fair_sharing=())))


def plain(value: EngineObject) -> EngineObject:
    """The object with one flavor, without preemption and partial admission.

    With each of these, Kueue can leave a workload inadmissible that could be admitted: a scan that
    continues at the second flavor although the first is free by now; a later victim; a search for
    the largest size which assumes that all smaller sizes fit.
    """
    match value:
        case ClusterQueue():
            return replace(value, preemption=Preemption(), groups=_of_one_flavor(value.groups))
        case Cohort():
            return replace(value, groups=_of_one_flavor(value.groups))
        case Workload():
            pod_sets = tuple(replace(each, min_count=None) for each in value.pod_sets)
            return replace(value, pod_sets=pod_sets)
        case _:
            return value


def _of_one_flavor(groups: tuple[ResourceGroup, ...]) -> tuple[ResourceGroup, ...]:
    return tuple(
        replace(
            group,
            flavors=FLAVORS[:1],
            quotas={c: quota for c, quota in group.quotas.items() if c.flavor == FLAVORS[0]},
        )
        for group in groups
    )


@pytest.mark.slow
@given(policies, clusters(SOUND), crowds(SOUND, 14), st.lists(st.integers(0, 99), max_size=6))
@calm(150)
def test_no_workload_waits_that_a_full_retry_would_admit(
    policy: Policy, cluster: list[EngineObject], crowd: list[Workload], done: list[int]
) -> None:
    witness = CheckedSimulation(policy, [plain(each) for each in cluster])
    for step, each in enumerate(crowd):
        witness.apply(ObjectStored(value=plain(each)))
        if step % 4 == 3:
            witness.world.settle()
    witness.world.settle()
    for number in done:
        running = [each for each in witness.engine.state.workloads.values() if each.reservation]
        if running:
            witness.world.finish(running[number % len(running)].key)
            witness.world.settle()
    witness.engine.queues.flush(sorted(witness.queues), witness.world.now)
    again = witness.world.settle().decisions
    assert [] == [each.workload.key for each in again if isinstance(each, Admit)]
