# SPDX-License-Identifier: Apache-2.0
"""Reclaimable pods: equality, limits, and a single write."""

from __future__ import annotations

from bridge.objects import pod_set, workload
from kuota.api.workload import ReclaimablePod
from kuota.bridge.job_pass.reclaimable import limited, reclaimable_status, same_pods


def done(**counts: int) -> list[ReclaimablePod]:
    return [ReclaimablePod(name=name, count=count) for name, count in counts.items()]


def test_order_does_not_matter_but_counts_and_names_do() -> None:
    assert same_pods(done(a=1, b=2), done(b=2, a=1))
    assert same_pods(None, [])
    assert not same_pods(done(a=1, b=2), done(a=1, b=1))
    assert not same_pods(done(a=1, b=2), done(a=1))
    assert not same_pods(None, done(a=1))


def test_no_more_pods_are_done_than_there_are() -> None:
    obj = workload("train", pod_set("a", 3), pod_set("b", 5))
    assert limited(done(a=4, b=2, unknown=9), obj) == done(a=3, b=2, unknown=9)


def test_the_list_is_written_only_when_it_changes_and_zeros_are_spelled_out() -> None:
    obj = workload("train", status={"reclaimablePods": [{"name": "a", "count": 1}]})
    assert reclaimable_status(obj, done(a=1)) == {}
    assert reclaimable_status(obj, done(a=0)) == {"reclaimablePods": [{"name": "a", "count": 0}]}
