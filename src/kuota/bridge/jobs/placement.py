# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a pod template ask of placement, as the topology request of a pod set.

Annotations that do not parse ask for nothing: `kuota.api.rules` refuses them before.
"""

from __future__ import annotations

import json
from typing import Any

from kuota.api.base import Json
from kuota.api.rules.report import child, string_map, truth, whole
from kuota.api.rules.topology import (
    GROUP_NAME,
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_REQUIRED,
    SLICE_SIZE,
    UNCONSTRAINED,
)


def topology_request(template: Json, index_label: str = "") -> Json | None:
    """The request; None when there is nothing to say. `index_label` tells the pods' ranks."""
    annotations = string_map(child(template, "metadata").get("annotations"))
    wanted: dict[str, Any] = {
        "required": annotations.get(REQUIRED),
        "preferred": annotations.get(PREFERRED),
        "unconstrained": truth(annotations.get(UNCONSTRAINED, "")),
        "podIndexLabel": index_label or None,
        "podSetGroupName": annotations.get(GROUP_NAME),
        "podsetSliceRequiredTopologyConstraints": _layers(annotations.get(SLICE_LAYERS, "")),
    }
    if SLICE_REQUIRED in annotations:
        wanted["podSetSliceRequiredTopology"] = annotations[SLICE_REQUIRED]
        wanted["podSetSliceSize"] = whole(annotations.get(SLICE_SIZE, ""))
    return {field: value for field, value in wanted.items() if value is not None} or None


def _layers(text: str) -> list[Json] | None:
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, list) else None
