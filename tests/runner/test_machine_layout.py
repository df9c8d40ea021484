# SPDX-License-Identifier: Apache-2.0
"""How a machine is divided into domains, and the Nodes and the Topology that represent them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.runner.domain_nodes import domain_nodes, machine_topology
from kuota.runner.host_topology import LEVELS, HostTopology, host_topology
from kuota.runner.inventory import GPU, Gpus, Machine, pretended
from kuota.runner.machine_layout import Layout, LayoutError, layout, simulated, simulated_levels

from . import hosts

GI = hosts.GI


def gpus(found: Layout) -> list[list[str]]:
    return [each.devices.get(GPU, []) for each in found.domains]


def cpus(found: Layout) -> list[tuple[int, ...]]:
    return [each.cpus for each in found.domains]


def numbers(first: int, end: int) -> list[str]:
    return [f"GPU-{number}" for number in range(first, end)]


def test_without_nvlinks_a_machine_is_divided_by_numa_nodes() -> None:
    found = layout(hosts.two_sockets(), "auto")
    assert ("socket", "numa") == found.levels
    assert [{"socket": str(at // 2), "numa": str(at)} for at in range(4)] == [
        each.values for each in found.domains
    ]
    assert [(4000, 32 * GI)] * 4 == [(each.cpu_milli, each.memory_bytes) for each in found.domains]


def test_sockets_contain_their_numa_nodes() -> None:
    found = layout(hosts.two_sockets(), "socket")
    assert ("socket",) == found.levels
    assert [tuple(range(8)), tuple(range(8, 16))] == cpus(found)
    assert [64 * GI] * 2 == [each.memory_bytes for each in found.domains]


def test_nvswitches_connect_several_sockets() -> None:
    found = layout(hosts.dgx(), "auto")
    assert ("nvlink-group", "socket", "numa") == found.levels
    assert [numbers(0, 4), numbers(4, 8)] == gpus(found)
    assert {"nvlink-group": "0", "socket": "1", "numa": "1"} == found.domains[1].values


def test_pcie_switches_share_the_cpus_of_their_numa_node() -> None:
    found = layout(hosts.dgx(), "pcie-switch")
    assert ("nvlink-group", "socket", "numa", "pcie-switch") == found.levels
    assert [numbers(at, at + 2) for at in (0, 2, 4, 6)] == gpus(found)
    assert [56_000] * 4 == [each.cpu_milli for each in found.domains]
    # Both threads of a core are in one domain.
    assert all({(cpu + 112) % 224 for cpu in one} == set(one) for one in cpus(found))


def test_the_whole_machine_is_one_domain_if_its_gpus_are_one_group() -> None:
    found = layout(hosts.dgx(), "nvlink-group")
    assert ("nvlink-group",) == found.levels
    assert [numbers(0, 8)] == gpus(found)
    assert 224_000 == found.domains[0].cpu_milli


def test_bridged_pairs_are_domains() -> None:
    found = layout(hosts.bridged_pairs(), "auto")
    assert ("socket", "numa", "nvlink-group") == found.levels
    assert [numbers(0, 2), numbers(2, 4)] == gpus(found)
    assert ["nvlink-group-0", "nvlink-group-1"] == [each.name for each in found.domains]


def test_pairs_divide_the_cpus_of_their_numa_node() -> None:
    found = layout(hosts.pairs_on_one_socket(), "auto")
    assert [(0, 1, 2), (3, 4, 5)] == cpus(found)
    assert [30 * GI] * 2 == [each.memory_bytes for each in found.domains]
    assert ("socket", "numa", "nvlink-group") == found.levels


def test_a_level_that_divides_a_domain_is_left_out() -> None:
    assert ("socket", "numa") == layout(hosts.pairs_on_one_socket(), "numa").levels


def test_a_numa_node_without_gpus_is_a_domain_too() -> None:
    record = hosts.numa_node(0, "0-1", 4) | hosts.numa_node(1, "2-3", 4)
    a, b, c, d = (f"0000:0{at}:00.0" for at in range(4))
    cards = [hosts.gpu(0, a, b), hosts.gpu(1, b, a), hosts.gpu(2, c, d), hosts.gpu(3, d, c)]
    for each in cards:
        record |= hosts.pci(each.address, 1, "pci0000:00", "0000:00:01.0")
    found = layout(host_topology(record, cards, range(4), 8 * GI), "auto")
    assert ["numa-0", "nvlink-group-0", "nvlink-group-1"] == [each.name for each in found.domains]
    assert {"socket": "0", "numa": "0", "nvlink-group": "none"} == found.domains[0].values


def test_a_virtual_machine_is_one_domain() -> None:
    found = layout(hosts.virtual(), "auto")
    assert ("socket", "numa") == found.levels
    assert [numbers(0, 1)] == gpus(found)


def test_a_container_is_divided_within_its_cpus() -> None:
    found = layout(hosts.limited(), "numa")
    assert [(20, 21, 22, 23)] == cpus(found)
    assert [numbers(0, 2)] == gpus(found)


@pytest.mark.parametrize("level", ["nvlink-group", "pcie-switch"])
def test_a_level_that_the_machine_does_not_have_is_an_error(level: str) -> None:
    with pytest.raises(LayoutError, match=f"divided by {level}.*use auto, socket or numa"):
        layout(hosts.virtual(), level)


HOSTS = [
    hosts.laptop,
    hosts.two_sockets,
    hosts.dgx,
    hosts.bridged_pairs,
    hosts.pairs_on_one_socket,
    hosts.virtual,
    hosts.growing,
    hosts.limited,
]


@pytest.mark.parametrize("level", ["auto", *LEVELS])
@pytest.mark.parametrize("make", HOSTS)
def test_everything_is_in_exactly_one_domain(make: Callable[[], HostTopology], level: str) -> None:
    host = make()
    try:
        found = layout(host, level)
    except LayoutError:
        return
    assert sorted(each.number for each in host.cpus) == sorted(
        cpu for domain in found.domains for cpu in domain.cpus
    )
    ids = [each for card in host.cards for each in card.ids[GPU]]
    assert sorted(ids) == sorted(each for some in gpus(found) for each in some)
    assert sum(host.memory_bytes.values()) == sum(each.memory_bytes for each in found.domains)
    assert all(set(found.levels) == set(each.values) for each in found.domains)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    cards=st.integers(0, 20),
    make=st.sampled_from(HOSTS),
)
def test_simulated_domains_divide_the_machine(
    counts: list[int], cards: int, make: Callable[[], HostTopology]
) -> None:
    host = make()
    levels = dict(zip(LEVELS, counts, strict=False))
    found = simulated(levels, host, pretended(cards).cards)
    assert sorted(pretended(cards).ids.get(GPU, [])) == sorted(
        each for some in gpus(found) for each in some
    )
    assert max(map(len, gpus(found))) - min(map(len, gpus(found))) <= 1
    assert all(each.cpus and each.cpu_milli for each in found.domains)
    assert sum(each.cpu_milli for each in found.domains) <= 1000 * len(host.cpus)
    assert len(found.domains) == len({tuple(each.values.items()) for each in found.domains})


def test_simulated_levels_are_nested() -> None:
    levels = simulated_levels("socket=2, nvlink-group=2")
    found = simulated(levels, hosts.laptop(), pretended(8).cards)
    assert ("socket", "nvlink-group") == found.levels
    assert [("0", "0"), ("0", "1"), ("1", "2"), ("1", "3")] == [
        (each.values["socket"], each.values["nvlink-group"]) for each in found.domains
    ]
    assert [2, 2, 2, 2] == [len(each) for each in gpus(found)]
    assert [(0, 4), (1, 5), (2, 6), (3, 7)] == cpus(found)


def test_more_domains_than_cores_share_them() -> None:
    found = simulated({"numa": 8}, hosts.laptop(), ())
    assert [(0, 4), (0, 4), (1, 5), (1, 5), (2, 6), (2, 6), (3, 7), (3, 7)] == cpus(found)
    assert [1000] * 8 == [each.cpu_milli for each in found.domains]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rack=2", ["'rack=2' is not LEVEL=NUMBER", "socket, numa, pcie-switch, nvlink-group"]),
        ("socket", ["'socket' is not LEVEL=NUMBER"]),
        ("socket=0", ["'0' is not a number of domains"]),
        ("socket=-1", ["'-1' is not a number"]),
        ("socket=\u0662", ["is not a number"]),
        ("socket=2,socket=3,foo=x", ["socket is given twice", "'foo=x'", "'x' is not a number"]),
        ("socket=64,numa=64", ["4096 domains are too many; use at most 256"]),
        ("socket=999999999999999999999", ["is not a number of domains"]),
        (",", ["'' is not LEVEL=NUMBER"]),
    ],
)
def test_invalid_simulated_levels_are_rejected_with_all_faults(text: str, words: list[str]) -> None:
    with pytest.raises(LayoutError) as caught:
        simulated_levels(text)
    assert [] == [each for each in words if each not in str(caught.value)]


def test_domains_are_nodes_with_labels_capacity_devices_and_cpus() -> None:
    machine = Machine(4000, 60 * GI, 10 * GI, Gpus((), {"nvidia.com/gpu.product": "H100"}))
    plans = domain_nodes("lab", machine, layout(hosts.pairs_on_one_socket(), "auto"))
    assert ["lab-nvlink-group-0", "lab-nvlink-group-1"] == [each.name for each in plans]
    labels = plans[1].node["metadata"]["labels"]
    assert {
        "kubernetes.io/hostname": "lab-nvlink-group-1",
        "kuota.dev/socket": "0",
        "kuota.dev/numa": "0",
        "kuota.dev/nvlink-group": "1",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "H100",
    }.items() <= labels.items()
    assert ("3", "2", f"{30 << 20}Ki") == tuple(
        plans[1].allocatable[each] for each in ("cpu", GPU, "memory")
    )
    assert (3, 4, 5) == plans[1].cpus
    assert numbers(2, 4) == plans[1].devices[GPU]


def test_a_single_domain_keeps_the_name_of_the_machine() -> None:
    plans = domain_nodes("lab", Machine(4000, GI, GI), layout(hosts.virtual(), "auto"))
    assert ["lab"] == [each.name for each in plans]


def test_names_of_domains_are_valid_labels() -> None:
    plans = domain_nodes("a" * 70, Machine(4000, GI, GI), layout(hosts.two_sockets(), "numa"))
    assert {63} == {len(each.name) for each in plans}
    assert 4 == len({each.name for each in plans})


def test_the_topology_has_the_levels_and_the_node() -> None:
    levels = machine_topology(layout(hosts.dgx(), "auto"))["spec"]["levels"]
    assert [
        "kuota.dev/nvlink-group",
        "kuota.dev/socket",
        "kuota.dev/numa",
        "kubernetes.io/hostname",
    ] == [each["nodeLabel"] for each in levels]
