# SPDX-License-Identifier: Apache-2.0
"""Constraints of ResourceFlavor, Topology and WorkloadPriorityClass, field by field."""

from __future__ import annotations

from .rule import QUALIFIED_NAME, Table, amended, atomic, field, int32, subdomain, text, under
from .shared import TAINTS, TOLERATIONS

RESOURCE_FLAVOR: Table = {
    "spec.nodeLabels": field(max_properties=8, map_type="atomic"),
    **under("spec.nodeTaints", TAINTS),
    **under("spec.tolerations", TOLERATIONS),
    "spec.topologyName": subdomain(),
}

TOPOLOGY: Table = {
    "spec.levels": atomic(16, required=True, min_items=1),
    "spec.levels[].nodeLabel": text(316, required=True, min_length=1, pattern=QUALIFIED_NAME),
}

PRIORITY_CLASS: Table = {
    "description": text(2048),
    "value": int32(required=True),
}

PRIORITY_CLASS_V1BETA1: Table = amended(PRIORITY_CLASS, gone=("description",))
