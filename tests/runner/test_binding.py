# SPDX-License-Identifier: Apache-2.0
"""The node of a pod, and the message if there is none."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.runner.binding import (
    Bind,
    Candidate,
    SchedulableNode,
    Unschedulable,
    decisions,
    offer,
    placed,
)
from kuota.runner.nodes import described

GPU = "nvidia.com/gpu"


def node(
    name: str, gpus: int = 8, taints: list[Json] | None = None, **labels: str
) -> SchedulableNode:
    status = {"allocatable": {"cpu": "8", GPU: str(gpus), "pods": "10"}}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return offer({"metadata": meta, "spec": {"taints": taints or []}, "status": status})


def pod(name: str, gpus: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    meta = {"name": name, "namespace": "team", "labels": labels or {}}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
    }


def where(
    pods: list[Json], offers: list[SchedulableNode], there: list[Json] | None = None
) -> dict[str, str]:
    """The node of each pod, or why it has none."""
    around = [placed(each) for each in there or ()]
    made = decisions([Candidate(each) for each in pods], offers, around)
    return {each.key.name: each.node if isinstance(each, Bind) else each.message for each in made}


def test_a_pod_goes_where_its_selector_says() -> None:
    offers = [node("a", zone="x"), node("b", zone="y")]
    assert {"p": "b"} == where([pod("p", nodeSelector={"zone": "y"})], offers)


def test_affinity_is_judged_by_the_whole_of_a_nodes_labels() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y", "z"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    one = pod("p", affinity={"nodeAffinity": required})
    assert {"p": "b"} == where([one], [node("a"), node("b", zone="y")])
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    assert {"p": message} == where([one], [node("a")])


def test_a_taint_keeps_away_whoever_does_not_tolerate_it() -> None:
    offers = [node("a", taints=[{"key": "gpu", "value": "only", "effect": "NoSchedule"}])]
    message = "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: only}."
    assert {"p": message} == where([pod("p")], offers)
    assert {"p": "a"} == where([pod("p", tolerations=[{"operator": "Exists"}])], offers)


def test_what_is_taken_is_not_free() -> None:
    there = [pod("old", 6, nodeName="a")]
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert {"p": message} == where([pod("p", 3)], [node("a")], there)
    assert {"p": "a"} == where([pod("p", 2)], [node("a")], there)


def test_all_that_is_too_little_is_reported() -> None:
    resources = {"requests": {"cpu": "8"}, "limits": {GPU: "8"}}
    big = pod("p", containers=[{"name": "c", "resources": resources}])
    there = [pod("old", containers=big["spec"]["containers"], nodeName="a")]
    message = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu."
    assert {"p": message} == where([big], [node("a")], there)


def test_who_waits_in_vain_is_reported() -> None:
    vain = "No node has that much, even when it is empty: ask for less."
    few = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert {"p": f"{few} {vain}"} == where([pod("p", 9)], [node("a")])
    offers = [node("a"), node("b", 16, zone="x")]
    there = [pod("old", 16, nodeName="b")]
    assert vain not in where([pod("p", 9)], offers, there)["p"]
    barred = [node("a"), node("b", 16, taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert where([pod("p", 9)], barred)["p"].endswith(vain)
    nowhere = pod("p", 9, nodeSelector={"zone": "y"})
    assert vain not in where([nowhere], offers)["p"]


def test_the_urgent_go_first_and_a_big_one_does_not_hold_up_a_small_one() -> None:
    pods = [pod("low", 8), pod("high", 6, priority=10), pod("small", 2)]
    found = where(pods, [node("a")])
    assert ("a", "a") == (found["high"], found["small"])
    assert "Insufficient" in found["low"]


def test_the_emptiest_node_is_taken_unless_another_is_preferred() -> None:
    offers = [node("a"), node("b", nice="yes")]
    there = [pod("old", 4, nodeName="b")]
    assert {"p": "a"} == where([pod("p", 1)], offers, there)
    preference = {"matchExpressions": [{"key": "nice", "operator": "Exists"}]}
    term = {"weight": 5, "preference": preference}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert {"p": "b"} == where([pod("p", 1, affinity=wish)], offers, there)


def near(kind: str, **labels: str) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_that_must_be_apart_are_and_those_that_must_be_together_are() -> None:
    offers = [node("a"), node("b")]
    apart = [
        pod(f"p{n}", labels={"app": "x"}, affinity=near("podAntiAffinity", app="x")) for n in "012"
    ]
    found = where(apart, offers)
    assert {"a", "b"} == {found["p0"], found["p1"]}
    assert "anti-affinity" in found["p2"]
    together = [
        pod(f"q{n}", 3, labels={"app": "y"}, affinity=near("podAffinity", app="y")) for n in "01"
    ]
    assert 1 == len(set(where(together, offers).values()))


def test_a_file_describes_nodes_with_their_own_devices() -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: big, labels: {pool: a}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {capacity: {cpu: "16", memory: 64Gi, nvidia.com/gpu: 4}}
---
kind: Node
metadata: {name: small}
status: {capacity: {cpu: 2}}
"""
    big, small = described(text)
    assert 4 == len(big.devices[GPU])
    assert "GPU-pretend-big-0" == big.devices[GPU][0]
    assert ("a", "linux") == (
        big.node["metadata"]["labels"]["pool"],
        small.node["metadata"]["labels"]["kubernetes.io/os"],
    )
    assert {} == small.devices


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=12),
    st.lists(st.integers(0, 8), min_size=1, max_size=3),
)
def test_no_node_is_overcommitted_and_no_fitting_pod_waits(
    wants: list[tuple[int, int]], sizes: list[int]
) -> None:
    offers = [node(f"n{number}", size) for number, size in enumerate(sizes)]
    pods = {f"p{n:02}": pod(f"p{n:02}", g, priority=p) for n, (g, p) in enumerate(wants)}
    made = decisions([Candidate(each) for each in pods.values()], offers, [])
    used: Counter[str] = Counter()
    for each in made:
        if isinstance(each, Bind):
            used[each.node] += wants[int(each.key.name[1:])][0]
    free = [size - used[f"n{number}"] for number, size in enumerate(sizes)]
    assert all(each >= 0 for each in free)
    for each in made:
        if isinstance(each, Unschedulable):
            assert wants[int(each.key.name[1:])][0] > max(free)
