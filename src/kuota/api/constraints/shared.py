# SPDX-License-Identifier: Apache-2.0
"""Defines the constraints that several kinds share: conditions, quotas, usage, tolerations."""

from __future__ import annotations

from .rule import (
    QUALIFIED_NAME,
    REASON,
    FieldRule,
    Table,
    atomic,
    field,
    int64,
    keyed,
    one_of,
    subdomain,
    text,
    time,
    under,
)

STOP_POLICY = one_of("None", "Hold", "HoldAndDrain", default="None")

CONDITIONS: Table = {
    "": keyed("type", max_items=16),
    "[].type": text(316, required=True, pattern=QUALIFIED_NAME),
    "[].status": one_of("True", "False", "Unknown", required=True),
    "[].reason": text(1024, required=True, min_length=1, pattern=REASON),
    "[].message": text(32768, required=True),
    "[].lastTransitionTime": time(required=True),
    "[].observedGeneration": int64(minimum=0),
}

RESOURCE_GROUPS: Table = {
    "": atomic(16),
    "[].coveredResources": atomic(64, required=True, min_items=1),
    "[].flavors": keyed(required=True, min_items=1, max_items=64),
    "[].flavors[].name": subdomain(required=True),
    "[].flavors[].resources": keyed(required=True, min_items=1, max_items=64),
    "[].flavors[].resources[].name": field(required=True),
    "[].flavors[].resources[].nominalQuota": field(required=True),
}

FLAVOR_USAGE: Table = {
    "": keyed(max_items=64),
    "[].name": subdomain(required=True),
    "[].resources": keyed(required=True, max_items=64),
    "[].resources[].name": field(required=True),
}

TOLERATIONS: Table = {
    "": atomic(8),
    "[].tolerationSeconds": int64(),
}

TAINTS: Table = {
    "": atomic(8),
    "[].key": field(required=True),
    "[].effect": field(required=True),
}

LABEL_SELECTOR: Table = {
    "": FieldRule(map_type="atomic"),
    "matchExpressions": atomic(),
    "matchExpressions[].key": field(required=True),
    "matchExpressions[].operator": field(required=True),
    "matchExpressions[].values": atomic(),
}

ADMISSION_FAIR_SHARING_STATUS: Table = {
    "consumedResources": field(required=True),
    "lastUpdate": time(required=True),
}

FAIR_SHARING: Table = {"fairSharing.weight": field(default=1)}
WEIGHTED_SHARE: Table = {"fairSharing.weightedShare": int64(required=True)}


def conditions(prefix: str = "status.conditions") -> Table:
    return under(prefix, CONDITIONS)
