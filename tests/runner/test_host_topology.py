# SPDX-License-Identifier: Apache-2.0
"""Where CPUs, memory and GPUs are, read from recorded machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kuota.runner.host_topology import (
    NODES,
    Card,
    HostTopology,
    cpu_list,
    host_topology,
    pci_address,
)
from kuota.runner.inventory import GPU, found_gpus
from kuota.runner.sysfs import recorded

from . import hosts

GI = hosts.GI


def sockets(host: HostTopology) -> set[tuple[int, int]]:
    return {(each.socket, each.numa) for each in host.cpus}


def places(host: HostTopology) -> list[tuple[int, str, str]]:
    return [(each.numa, each.switch, each.group) for each in host.cards]


def test_threads_of_a_core_belong_together() -> None:
    assert [0, 1, 2, 3, 0, 1, 2, 3] == [each.core for each in hosts.laptop().cpus]


def test_numa_nodes_have_their_socket_and_memory() -> None:
    host = hosts.two_sockets()
    assert {(0, 0), (0, 1), (1, 2), (1, 3)} == sockets(host)
    assert dict.fromkeys(range(4), 32 * GI) == host.memory_bytes


def test_gpus_behind_nvswitches_are_one_group() -> None:
    expected = [(at // 4, str(at // 2), "0") for at in range(8)]
    assert expected == places(hosts.dgx())


def test_bridges_make_pairs() -> None:
    assert [(0, "", "0"), (0, "", "0"), (1, "", "1"), (1, "", "1")] == places(hosts.bridged_pairs())


def test_a_chain_of_nvlinks_is_one_group_and_a_gpu_without_links_its_own() -> None:
    addresses = [f"0000:0{at}:00.0" for at in range(4)]
    cards = [
        hosts.gpu(0, addresses[0], addresses[1]),
        hosts.gpu(1, addresses[1], addresses[0], addresses[3]),
        hosts.gpu(2, addresses[2]),
        hosts.gpu(3, addresses[3], addresses[1]),
    ]
    assert ["0", "0", "1", "0"] == [each.group for each in host_topology({}, cards, [0], GI).cards]


def test_gpus_that_share_a_switch_of_unknown_type_are_one_group() -> None:
    cards = [hosts.gpu(at, f"0000:0{at}:00.0", "0000:c0:00.0", "0000:c1:00.0") for at in range(3)]
    assert ["0", "0", "0"] == [each.group for each in host_topology({}, cards, [0], GI).cards]


def test_an_nvlink_to_a_gpu_that_is_hidden_leads_nowhere() -> None:
    host = host_topology({}, [hosts.gpu(0, "0000:01:00.0", "0000:02:00.0")], [0], GI)
    assert [(0, "", "0")] == places(host)


def test_a_machine_without_any_information_is_one_numa_node() -> None:
    host = hosts.virtual()
    assert {(0, 0)} == sockets(host)
    assert {0: 8 * GI} == host.memory_bytes
    assert [(0, "", "")] == places(host)


def test_numa_nodes_have_all_of_the_memory_that_the_machine_can_get() -> None:
    assert {0: 125 * GI} == hosts.growing().memory_bytes


def test_memory_is_divided_by_cpus_if_numa_nodes_do_not_report_it() -> None:
    record = {f"{NODES}/node0/cpulist": "0-2", f"{NODES}/node1/cpulist": "3"}
    assert {0: 6 * GI, 1: 2 * GI} == host_topology(record, [], range(4), 8 * GI).memory_bytes


def test_only_allowed_cpus_and_their_memory_count() -> None:
    host = hosts.limited()
    assert [20, 21, 22, 23] == [each.number for each in host.cpus]
    assert {1: 128 * GI} == host.memory_bytes
    # Processes that use the GPU of the other socket have to run on this one.
    assert [(1, "", ""), (1, "", "")] == places(host)


def test_memory_without_cpus_is_not_offered() -> None:
    """The memory of some GPUs and of CXL devices is a NUMA node without CPUs."""
    record = hosts.numa_node(0, "0-1", 4) | hosts.numa_node(1, "", 96)
    assert {0: 4 * GI} == host_topology(record, [], [0, 1], 100 * GI).memory_bytes


def test_cpus_next_to_a_gpu_tell_its_numa_node() -> None:
    record = hosts.numa_node(0, "0-1", 4) | hosts.numa_node(1, "2-3", 4)
    cards = [
        Card({GPU: ["a"]}, "0000:01:00.0", cpus=frozenset({2, 3})),
        Card({GPU: ["b"]}, "0000:02:00.0", cpus=frozenset({0, 1, 2, 3})),
    ]
    assert [1, 0] == [each.numa for each in host_topology(record, cards, range(4), 8 * GI).cards]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8\n", {0, 1, 2, 3, 8}), ("", set()), ("\n", set()), ("x,2,3-", {2}), ("5-4", set())],
)
def test_lists_of_cpus_are_parsed(text: str, expected: set[int]) -> None:
    assert expected == cpu_list(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("00010000:B1:00.0", "10000:b1:00.0"),
        ("", ""),
        ("x:18:00.0", ""),
    ],
)
def test_addresses_of_nvml_become_those_of_the_kernel(text: str, expected: str) -> None:
    assert expected == pci_address(text)


def test_sysfs_is_recorded_as_far_as_it_is_there(tmp_path: Path) -> None:
    record = hosts.numa_node(0, "0-1", 4) | hosts.cpu(0, 0, "0") | hosts.cpu(1, 0, "1")
    for path, text in record.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    device = tmp_path / "devices/pci0000:00/0000:00:05.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("0\n")
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:00:05.0").symlink_to("../../../devices/pci0000:00/0000:00:05.0")
    expected = record | hosts.pci("0000:00:05.0", 0, "pci0000:00")
    assert expected == recorded(["0000:00:05.0", "0000:99:00.0"], str(tmp_path))
    assert {} == recorded(["0000:00:05.0"], str(tmp_path / "nothing"))


class FakeNvml:
    """NVML with two GPUs that a bridge connects, and a third one behind an NVSwitch."""

    NVML_NVLINK_MAX_LINKS = 3

    class NVMLError(Exception):
        pass

    class Pci:
        def __init__(self, bus: int) -> None:
            self.busId = b"00000000:%02X:00.0" % bus

    class Memory:
        total = 80 << 30

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetUUID(self, device: int) -> str:  # noqa: N802
        return f"GPU-{device}"

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "NVIDIA H100 NVL"

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        return self.Memory

    def nvmlDeviceGetMigMode(self, device: int) -> tuple[int, int]:  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetPciInfo(self, device: int) -> Any:  # noqa: N802
        return self.Pci(0x0A + device)

    def nvmlDeviceGetMinorNumber(self, device: int) -> int:  # noqa: N802
        if device == 2:
            raise self.NVMLError
        return device

    def nvmlDeviceGetNvLinkState(self, device: int, link: int) -> int:  # noqa: N802
        if link == 2:
            raise self.NVMLError
        return int(link == 0)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: int, link: int) -> int:  # noqa: N802
        return 2 if device == 2 else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: int, link: int) -> Any:  # noqa: N802
        return self.Pci(0x0A + (device ^ 1))

    def nvmlDeviceGetCpuAffinity(self, device: int, words: int) -> list[int]:  # noqa: N802
        return [0b101, 1] + [0] * (words - 2)


def test_nvml_tells_how_gpus_are_connected() -> None:
    cards = found_gpus(FakeNvml()).cards
    assert ["0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"] == [each.address for each in cards]
    assert [("0000:0b:00.0",), ("0000:0a:00.0",), ()] == [each.peers for each in cards]
    assert [False, False, True] == [each.switched for each in cards]
    assert frozenset({0, 2, 64}) == cards[0].cpus


def test_nvml_tells_the_device_files_of_gpus() -> None:
    found = found_gpus(FakeNvml())
    assert {"GPU-0": "/dev/nvidia0", "GPU-1": "/dev/nvidia1"} == found.files
