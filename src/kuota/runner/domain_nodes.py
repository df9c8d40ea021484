# SPDX-License-Identifier: Apache-2.0
"""The Nodes and the Topology of a machine that is divided into domains. Pure."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.kube.resources import TOPOLOGIES

from .inventory import Machine
from .machine_layout import Layout
from .nodes import NodePlan, gpu_labels, node_capacity, planned

TOPOLOGY = "machine"
"""The name of the Topology whose levels are those of this machine."""
LEVEL_LABEL = "kuota.dev/"
"""The prefix of the labels that say in which socket, NUMA node or group a domain is."""
_MAX_LABEL = 63


def domain_nodes(name: str, machine: Machine, layout: Layout) -> list[NodePlan]:
    """The Nodes that represent the domains of this machine, with a label for each level.

    Processes are bound to the CPUs of their domain. The disk is divided evenly.
    """
    plans = []
    for each in layout.domains:
        own = name if len(layout.domains) == 1 else _with_suffix(name, each.name)
        places = {LEVEL_LABEL + level: value for level, value in each.values.items()}
        labels = gpu_labels(machine, each.devices) | places
        disk = machine.disk_bytes // len(layout.domains)
        capacity = node_capacity(each.cpu_milli, each.memory_bytes, disk, each.devices)
        node = {"metadata": {"name": own, "labels": labels}}
        plans.append(planned(node, capacity, each.devices, each.cpus))
    return plans


def _with_suffix(name: str, suffix: str) -> str:
    """The name of a domain. It is also the value of a label, which has at most 63 characters."""
    return f"{name[: _MAX_LABEL - len(suffix) - 1].rstrip('-.')}-{suffix}"


def machine_topology(layout: Layout) -> Json:
    """The Topology with the levels of the layout. Its lowest level is the Node."""
    labels = [*(LEVEL_LABEL + level for level in layout.levels), "kubernetes.io/hostname"]
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": [{"nodeLabel": each} for each in labels]},
    }
