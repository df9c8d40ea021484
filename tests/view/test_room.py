# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes have the capacity that queues promise, and the warnings."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json
from kuota.view.room import rounded, shortage_words, shortages

GPU = "nvidia.com/gpu"


def node(name: str = "here", labels: dict[str, str] | None = None, **amounts: str) -> Json:
    allocatable = {GPU if key == "gpu" else key: value for key, value in amounts.items()}
    meta = {"name": name, "labels": labels or {}}
    return {"metadata": meta, "status": {"allocatable": allocatable}}


def flavor(name: str = "any", **labels: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def queue(flavor: str = "any", **amounts: Any) -> Json:
    """A ClusterQueue, or a Cohort with quota of its own: both write it the same way."""
    resources = [
        {"name": GPU if name == "gpu" else name, "nominalQuota": amount}
        for name, amount in amounts.items()
    ]
    groups = [{"flavors": [{"name": flavor, "resources": resources}]}]
    return {"metadata": {"name": "q"}, "spec": {"resourceGroups": groups}}


def said(queues: list[Json], flavors: list[Json], nodes: list[Json]) -> list[str]:
    return [shortage_words(each) for each in shortages(queues, flavors, nodes)]


def test_nothing_is_said_where_there_is_enough() -> None:
    machine = node(gpu="8", cpu="4", memory="8Gi")
    assert [] == said([queue(gpu=4), queue(gpu="4", cpu="4000m")], [flavor()], [machine])


def test_nothing_is_said_where_there_are_no_nodes_to_compare_with() -> None:
    assert [] == said([queue(gpu=4)], [flavor()], [])


def test_quota_of_a_flavor_that_does_not_exist_is_reported_with_the_one_that_was_meant() -> None:
    found = said([queue("h10", gpu=4), queue("fpga", gpu=0)], [flavor("h100")], [node(gpu="8")])
    admits = "ClusterQueues with quota of it admit no workload"
    assert [
        f"there is no ResourceFlavor fpga: {admits}",
        f"there is no ResourceFlavor h10: {admits}; did you mean h100?",
    ] == found


def test_the_quotas_of_all_queues_are_added_up() -> None:
    assert [
        "quota is more than this machine has: nvidia.com/gpu 16 against 8; "
        "pods that are admitted may wait for room"
    ] == said([queue(gpu=12), queue(gpu=4)], [flavor()], [node(gpu="8")])


def test_all_that_is_too_much_is_said_at_once_and_in_round_numbers() -> None:
    machine = node(cpu="4", memory="32654832Ki")
    assert [
        "quota is more than this machine has: cpu 100 against 4, memory 1024Gi against 31.1Gi, "
        "nvidia.com/gpu 1 against 0; pods that are admitted may wait for room"
    ] == said([queue(gpu=1, cpu=100, memory="1Ti")], [flavor()], [machine])


def test_a_flavor_is_held_against_its_own_nodes() -> None:
    nodes = [node("a", {"gpu": "a100"}, gpu="4"), node("b", {"gpu": "h100"}, gpu="4")]
    flavors = [flavor("a100", gpu="a100"), flavor("h100", gpu="h100")]
    assert [
        "quota of flavor a100 is more than its nodes have: nvidia.com/gpu 6 against 4; "
        "pods that are admitted may wait for room"
    ] == said([queue("a100", gpu=6), queue("h100", gpu=2)], flavors, nodes)


def test_flavors_of_the_same_nodes_count_together() -> None:
    nodes = [node("a", {"gpu": "a100"}, gpu="4"), node("b", gpu="4")]
    flavors = [flavor("spot", gpu="a100"), flavor("fixed", gpu="a100")]
    assert [
        "quota of flavors fixed and spot is more than their nodes have: nvidia.com/gpu 6 against "
        "4; pods that are admitted may wait for room"
    ] == said([queue("spot", gpu=3), queue("fixed", gpu=3)], flavors, nodes)


def test_a_flavor_for_any_node_shares_them_with_the_others() -> None:
    nodes = [node("a", {"gpu": "a100"}, gpu="4"), node("b", gpu="4")]
    flavors = [flavor("a100", gpu="a100"), flavor("any")]
    assert [
        "quota is more than the nodes have: nvidia.com/gpu 9 against 8; "
        "pods that are admitted may wait for room"
    ] == said([queue("a100", gpu=4), queue("any", gpu=5)], flavors, nodes)


def test_a_flavor_that_leads_nowhere_is_named() -> None:
    flavors = [flavor(), flavor("h100", gpu="h100", zone="x")]
    assert [
        "quota of flavor h100 leads nowhere: no node has its labels gpu=h100, zone=x, so pods that "
        "are admitted there wait"
    ] == said([queue("h100", gpu=1)], flavors, [node(gpu="8")])


def test_unoffered_flavors_and_empty_quotas_are_omitted() -> None:
    flavors = [flavor(), flavor("h100", gpu="h100")]
    queues = [queue(gpu=0), queue("h100", gpu=0), queue(gpu="nonsense")]
    assert [] == said(queues, flavors, [node(cpu="1")])


def test_quota_without_a_limit_promises_nothing() -> None:
    assert [] == said([queue(gpu=2**63, cpu="1e17")], [flavor()], [node(gpu="8", cpu="1")])


def test_amounts_are_written_as_people_write_them() -> None:
    assert "31.1Gi" == rounded(33438547968 * 10**9, "memory")
    assert "1Gi" == rounded(2**30 * 10**9, "memory")
    assert "0" == rounded(0, "memory")
    assert "1500m" == rounded(1_500_000_000, "cpu")
