# SPDX-License-Identifier: Apache-2.0
"""Which domain each gated pod is sent to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json, Key
from kuota.api.podset import TOPOLOGY_GATE
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.topology_ungate import OffsetInvalid
from kuota.bridge.ungate import releases
from kuota.bridge.workload_pods import (
    INDEX_OFFSET,
    GateRemoval,
    WorkloadPod,
    may_release,
    workload_pod,
)

HOST = "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB = "jobset.sigs.k8s.io/job-index"


def _assignment(domains: Mapping[str, int], level: str = HOST) -> Json:
    slices = [
        {
            "domainCount": 1,
            "podCounts": {"universal": count},
            "valuesPerLevel": [{"universal": name}],
        }
        for name, count in domains.items()
    ]
    return {"levels": [level], "slices": slices}


def _workload(
    pod_sets: Mapping[str, tuple[int, Mapping[str, int]]],
    requests: Mapping[str, Json] | None = None,
    unhealthy: Sequence[str] = (),
    level: str = HOST,
) -> StoredWorkload:
    named = requests or {}
    return StoredWorkload.of(
        {
            "metadata": {"name": "wl", "namespace": "team"},
            "spec": {
                "podSets": [
                    {"name": name, "count": count, "topologyRequest": named.get(name)}
                    for name, (count, _) in pod_sets.items()
                ]
            },
            "status": {
                "admission": {
                    "podSetAssignments": [
                        {
                            "name": name,
                            "count": count,
                            "topologyAssignment": _assignment(domains, level),
                        }
                        for name, (count, domains) in pod_sets.items()
                    ]
                },
                "conditions": [{"type": "Admitted", "status": "True"}],
                "unhealthyNodes": [{"name": each} for each in unhealthy],
            },
        }
    )


def _pod(name: str, pod_set: str = "main", host: str = "", **fields: Any) -> WorkloadPod:
    """A gated pod, or one that was sent to a host."""
    given: dict[str, Any] = {
        "key": Key("team", name),
        "uid": name,
        "version": "1",
        "workload": "wl",
        "chain": "wl",
        "pod_set": pod_set,
        "gates": () if host else (TOPOLOGY_GATE,),
        "node_selector": {HOST: host} if host else {},
    }
    return WorkloadPod(**{**given, **fields})


def _ranked(name: str, index: object, **fields: Any) -> WorkloadPod:
    return _pod(name, **{"labels": {INDEX: str(index)}, **fields})


def _sent(
    workload: StoredWorkload, pods: Sequence[WorkloadPod], *, elastic: bool = False
) -> dict[str, str]:
    found = releases(workload, pods, elastic=elastic, topology=True)
    return {each.pod.key.name: each.node_selector.get(HOST, "") for each in found}


RANKS: Json = {"podIndexLabel": INDEX}
TWO = _workload({"main": (4, {"x": 2, "y": 2})}, {"main": RANKS})


def test_pods_are_sent_to_the_place_of_their_rank() -> None:
    pods = [_ranked("d", 0), _ranked("c", 3), _ranked("b", 1), _ranked("a", 2)]
    assert {"d": "x", "b": "x", "a": "y", "c": "y"} == _sent(TWO, pods)


def test_a_late_pod_gets_the_place_of_its_rank_although_others_are_free() -> None:
    assert {"a": "y"} == _sent(TWO, [_ranked("a", 3)])


@pytest.mark.parametrize(
    "odd",
    [
        _pod("b"),
        _ranked("b", 0),
        _ranked("b", 4),
        _ranked("b", -1),
        _ranked("b", "+1"),
        _ranked("b", "one"),
        _ranked("b", 1, host="y"),
        _ranked("b", 0, labels={INDEX: "99999999999999999999999999"}),
    ],
    ids=["missing", "duplicate", "too large", "negative", "signed", "text", "elsewhere", "huge"],
)
def test_one_pod_without_a_usable_rank_makes_all_fill_gaps(odd: WorkloadPod) -> None:
    pods = [_ranked("a", 0), odd, _ranked("c", 3), _ranked("d", 2)]
    expected = {"a": "x", "c": "x", "d": "y"} if odd.node_selector else None
    found = _sent(TWO, pods)
    if expected is None:
        expected = {"a": "x", "b": "x", "c": "y", "d": "y"}
    assert expected == found


def test_a_rank_without_a_place_makes_all_fill_gaps() -> None:
    short = _workload({"main": (3, {"x": 2})}, {"main": RANKS})
    assert {"a": "x", "b": "x"} == _sent(short, [_ranked("a", 2), _ranked("b", 1), _ranked("c", 0)])


def test_ranks_in_groups_count_the_pods_of_earlier_groups() -> None:
    request = RANKS | {"subGroupIndexLabel": JOB, "subGroupCount": 2}
    workload = _workload({"main": (4, {"x": 2, "y": 2})}, {"main": request})
    pods = [
        _pod(f"{job}-{index}", labels={INDEX: str(index), JOB: str(job)})
        for job in (1, 0)
        for index in (1, 0)
    ]
    assert {"0-0": "x", "0-1": "x", "1-0": "y", "1-1": "y"} == _sent(workload, pods)


def test_the_larger_pod_set_of_a_group_has_the_ranks_after_the_smaller_one() -> None:
    request = RANKS | {"podSetGroupName": "g"}
    workload = _workload(
        {"workers": (2, {"x": 1, "y": 1}), "leader": (1, {"x": 1})},
        {"workers": request, "leader": {"podSetGroupName": "g"}},
    )
    pods = [
        _pod("l", "leader"),
        _pod("w2", "workers", labels={INDEX: "2"}),
        _pod("w1", "workers", labels={INDEX: "1"}),
    ]
    assert {"l": "x", "w1": "x", "w2": "y"} == _sent(workload, pods)


def test_an_offset_is_subtracted_from_the_index() -> None:
    offset = {INDEX_OFFSET: "1"}
    pods = [_ranked("a", 4, annotations=offset), _ranked("b", 1, annotations=offset)]
    assert {"a": "y", "b": "x"} == _sent(TWO, pods)


def test_an_invalid_offset_is_reported() -> None:
    with pytest.raises(OffsetInvalid, match=r"team/a has the annotation .*: one"):
        _sent(TWO, [_ranked("a", 1, annotations={INDEX_OFFSET: "one"})])


def test_ended_pods_leave_their_place_and_terminating_ones_keep_it() -> None:
    plain = _workload({"main": (2, {"x": 1, "y": 1})})
    ended = _pod("a", host="x", ended=True)
    assert {"b": "x", "c": "y"} == _sent(plain, [ended, _pod("b"), _pod("c")])
    leaving = _pod("a", host="x", deleting=True)
    assert {"b": "y"} == _sent(plain, [leaving, _pod("b"), _pod("c")])


def test_places_on_unhealthy_nodes_stay_free_until_they_are_replaced() -> None:
    workload = _workload({"main": (2, {"x": 1, "y": 1})}, unhealthy=["x"])
    assert {"b": "y"} == _sent(workload, [_pod("a"), _pod("b")])
    racks = _workload({"main": (1, {"x": 1})}, unhealthy=["x"], level="rack")
    [found] = releases(racks, [_pod("a")], elastic=False, topology=True)
    assert {"rack": "x"} == found.node_selector


def test_pods_of_other_pod_sets_and_without_the_gate_are_left_alone() -> None:
    plain = _workload({"main": (2, {"x": 2})})
    assert {} == _sent(plain, [_pod("a", "other"), _pod("b", gates=("another",))])


def test_a_pod_without_quota_gets_no_node_and_one_with_quota_loses_both_gates() -> None:
    gates = (ELASTIC_JOB, TOPOLOGY_GATE)
    pods = [_pod(name, gates=gates) for name in "cab"]
    plain = _workload({"main": (2, {"x": 1, "y": 1})})
    found = releases(plain, pods, elastic=True, topology=True)
    assert ["a", "b"] == [each.pod.key.name for each in found]
    assert [{"schedulingGates": None, "nodeSelector": {HOST: host}} for host in "xy"] == [
        each.patch["spec"] for each in found
    ]


def test_other_gates_are_kept() -> None:
    pod = _pod("a", gates=("first", TOPOLOGY_GATE, "last"))
    patch = GateRemoval(pod=pod, gates=frozenset({TOPOLOGY_GATE})).patch
    assert [{"name": "first"}, {"name": "last"}] == patch["spec"]["schedulingGates"]
    assert "1" == patch["metadata"]["resourceVersion"]


def test_only_changes_that_can_free_a_pod_cause_a_pass() -> None:
    gated: Json = {"spec": {"schedulingGates": [{"name": TOPOLOGY_GATE}]}}
    pending: Json = {"status": {"phase": "Pending"}}
    running: Json = {"status": {"phase": "Running"}}
    failed: Json = {"status": {"phase": "Failed"}}
    assert may_release(None, gated)
    assert may_release(running, failed)
    assert may_release(running, None)
    assert not may_release(pending, running)
    assert not may_release(failed, None)
    assert not may_release(None, running)


def test_a_pod_with_odd_fields_is_read_without_failure() -> None:
    odd: Json = {
        "metadata": {"name": "a", "annotations": ["x"], "labels": {"a": 1}},
        "spec": {"schedulingGates": "none", "nodeSelector": 3},
        "status": None,
    }
    assert "" == workload_pod(odd).chain


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.sampled_from(["", "", "0", "1", "2", "9"]), st.booleans(), st.integers(-1, 12)
        ),
        max_size=10,
    ),
    st.booleans(),
)
def test_no_domain_gets_more_pods_than_it_was_assigned(
    counts: list[int], drawn: list[tuple[str, bool, int]], ranked: bool
) -> None:
    domains = {str(at): count for at, count in enumerate(counts)}
    workload = _workload({"main": (sum(counts), domains)}, {"main": RANKS} if ranked else None)
    pods = [
        _ranked(f"p{at}", index, host=host, ended=ended)
        for at, (host, ended, index) in enumerate(drawn)
    ]
    found = _sent(workload, pods)
    before = Counter(host for host, ended, _ in drawn if host and not ended)
    sent = Counter(found.values())
    assert all(before[each] + sent[each] <= max(domains[each], before[each]) for each in sent)
    waiting = sum(not host and not ended for host, ended, _ in drawn)
    free = sum(max(0, count - before[each]) for each, count in domains.items())
    assert min(waiting, free) == len(found)
