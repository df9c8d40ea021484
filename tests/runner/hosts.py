# SPDX-License-Identifier: Apache-2.0
"""Recorded machines: their part of sysfs, and what NVML reports about their GPUs."""

from __future__ import annotations

from kuota.runner.host_topology import CPUS, NODES, PCI, Card, HostTopology, host_topology
from kuota.runner.inventory import GPU

GI = 1 << 30


def cpu(number: int, package: int, siblings: str) -> dict[str, str]:
    folder = f"{CPUS}/cpu{number}/topology"
    return {
        f"{folder}/physical_package_id": f"{package}\n",
        f"{folder}/thread_siblings_list": f"{siblings}\n",
    }


def numa_node(number: int, cpus: str, gib: int) -> dict[str, str]:
    folder = f"{NODES}/node{number}"
    kib = gib << 20
    return {
        f"{folder}/cpulist": f"{cpus}\n",
        f"{folder}/meminfo": f"Node {number} MemTotal:       {kib} kB\n"
        f"Node {number} MemFree:        {kib // 2} kB\n",
    }


def pci(address: str, numa: int, *path: str) -> dict[str, str]:
    """A PCI device below the ports of `path`, of which the first is the host bridge."""
    return {
        f"{PCI}/{address}/numa_node": f"{numa}\n",
        f"{PCI}/{address}": "../../../devices/" + "/".join([*path, address]),
    }


def gpu(number: int, address: str, *peers: str, switched: bool = False) -> Card:
    return Card({GPU: [f"GPU-{number}"]}, address, peers, switched)


def laptop() -> HostTopology:
    """One socket with four cores of two threads each, and no GPU."""
    record = numa_node(0, "0-7", 16)
    for core in range(4):
        for thread in (core, core + 4):
            record |= cpu(thread, 0, f"{core},{core + 4}")
    return host_topology(record, [], range(8), 16 * GI)


def two_sockets() -> HostTopology:
    """Two sockets of two NUMA nodes with four CPUs each, and no GPU."""
    record: dict[str, str] = {}
    for node in range(4):
        record |= numa_node(node, f"{4 * node}-{4 * node + 3}", 32)
        for number in range(4 * node, 4 * node + 4):
            record |= cpu(number, node // 2, str(number))
    return host_topology(record, [], range(16), 128 * GI)


def dgx() -> HostTopology:
    """Eight GPUs that NVSwitches connect, four at each socket, two behind each PCIe switch."""
    record = numa_node(0, "0-55,112-167", 1024) | numa_node(1, "56-111,168-223", 1024)
    for number in range(224):
        record |= cpu(number, number % 112 // 56, f"{number % 112},{number % 112 + 112}")
    cards = []
    for number in range(8):
        bus = 0x18 + 0x10 * number
        bridge, upstream = f"pci0000:{0x15 + number // 2:02x}", 0x10 + number // 2
        ports = (
            f"0000:{upstream:02x}:01.0",
            f"0000:{upstream + 0x80:02x}:00.0",
            f"0000:{upstream + 0xA0:02x}:{number % 2:02x}.0",
        )
        address = f"0000:{bus:02x}:00.0"
        record |= pci(address, number // 4, bridge, *ports)
        cards.append(gpu(number, address, switched=True))
    return host_topology(record, cards, range(224), 2048 * GI)


def bridged_pairs() -> HostTopology:
    """Four GPUs in two pairs with NVLink bridges, one pair at each of two sockets."""
    record = numa_node(0, "0-15", 128) | numa_node(1, "16-31", 128)
    for number in range(32):
        record |= cpu(number, number // 16, str(number))
    addresses = ["0000:17:00.0", "0000:65:00.0", "0000:b1:00.0", "0000:ca:00.0"]
    for at, address in enumerate(addresses):
        record |= pci(address, at // 2, f"pci0000:{address[5:7]}", f"0000:{address[5:7]}:01.0")
    cards = [gpu(at, each, addresses[at ^ 1]) for at, each in enumerate(addresses)]
    return host_topology(record, cards, range(32), 256 * GI)


def pairs_on_one_socket() -> HostTopology:
    """Two bridged pairs of GPUs and six CPUs in one NUMA node."""
    record = numa_node(0, "0-5", 60)
    for number in range(6):
        record |= cpu(number, 0, str(number))
    addresses = [f"0000:{bus}:00.0" for bus in ("01", "02", "03", "04")]
    cards = [gpu(at, each, addresses[at ^ 1]) for at, each in enumerate(addresses)]
    for each in addresses:
        record |= pci(each, -1, "pci0000:00", "0000:00:01.0")
    return host_topology(record, cards, range(6), 60 * GI)


def virtual() -> HostTopology:
    """A virtual machine with one GPU, without NUMA nodes; its sockets are unknown."""
    record: dict[str, str] = {}
    for number in range(4):
        record |= cpu(number, -1, str(number))
    address = "0000:00:05.0"
    record |= pci(address, -1, "pci0000:00")
    return host_topology(record, [gpu(0, address)], range(4), 8 * GI)


def growing() -> HostTopology:
    """A virtual machine with an H200, recorded as it was: it gets its memory when it uses it."""
    record = {
        f"{NODES}/node0/cpulist": "0-15\n",
        f"{NODES}/node0/meminfo": "Node 0 MemTotal:        4681092 kB\n",
    }
    for number in range(16):
        record |= cpu(number, 0, str(number))
    address = "0000:00:06.0"
    record |= pci(address, -1, "pci0000:00")
    return host_topology(record, [gpu(0, address)], range(16), 125 * GI)


def limited() -> HostTopology:
    """The machine of `bridged_pairs` in a container with four CPUs of the second socket."""
    whole = bridged_pairs()
    record = numa_node(0, "0-15", 128) | numa_node(1, "16-31", 128)
    for each in whole.cpus:
        record |= cpu(each.number, each.socket, str(each.number))
    near, far = "0000:b1:00.0", "0000:17:00.0"
    record |= pci(near, 1, "pci0000:b0", "0000:b0:01.0") | pci(far, 0, "pci0000:16", "0000:16:01.0")
    return host_topology(record, [gpu(0, far), gpu(1, near)], [20, 21, 22, 23], 256 * GI)
