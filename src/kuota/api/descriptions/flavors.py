# SPDX-License-Identifier: Apache-2.0
"""Descriptions of ResourceFlavor, Topology and WorkloadPriorityClass."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import TOLERATIONS, Words

RESOURCE_FLAVOR: Words = {
    "": "A kind of hardware or of nodes, such as one model of GPU, that quota is given out in.",
    "spec": "Which nodes are of this flavor, and what their pods need.",
    "spec.nodeLabels": (
        "Labels of the nodes of this flavor. Pods that get the flavor are sent to such nodes; "
        "without labels they may go anywhere."
    ),
    "spec.nodeTaints": (
        "Taints of the nodes of this flavor. Only work that tolerates them gets the flavor."
    ),
    "spec.tolerations": "Tolerations that pods are given together with the flavor.",
    **under("spec.tolerations", TOLERATIONS),
    "spec.topologyName": "Name of the Topology in which the nodes of this flavor are arranged.",
}

TOPOLOGY: Words = {
    "": "How nodes are arranged in racks, blocks and the like, for pods that should be close.",
    "spec": "The levels.",
    "spec.levels": "Levels of the arrangement, the widest first.",
    "spec.levels[].nodeLabel": "Node label whose value tells the places of this level apart.",
}

PRIORITY_CLASS: Words = {
    "": (
        "A name for a priority in queues. Jobs name it in the label "
        "kueue.x-k8s.io/priority-class; the priority of their pods stays as it is."
    ),
    "value": "The priority: higher goes first, and may displace what is lower.",
    "description": "For people: when to use this class.",
}
