# SPDX-License-Identifier: Apache-2.0
"""Decides whether an AdmissionCheck of MultiKueue is active. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Condition, condition
from kuota.api.kueue import AdmissionCheck, MultiKueueCluster, MultiKueueConfig

from ..controller import Activity
from .references import BadReference, worker_names

ACTIVE = "Active"


def check_activity(
    check: AdmissionCheck,
    configs: Mapping[str, MultiKueueConfig],
    clusters: Mapping[str, MultiKueueCluster],
) -> Activity:
    """Return whether the check can be used: at least one of its clusters is active."""
    try:
        names = worker_names(check, configs)
    except BadReference as error:
        return Activity(False, "BadConfig", f"Cannot load the AdmissionCheck's parameters: {error}")
    missing = [each for each in names if each not in clusters]
    inactive = [each for each in names if each in clusters and not is_active(clusters[each])]
    if not missing and not inactive:
        return Activity(True)
    usable = len(names) > len(missing) + len(inactive)
    reason = "SomeActiveClusters" if usable else "NoUsableClusters"
    return Activity(usable, reason, _unusable(missing, inactive))


def _unusable(missing: list[str], inactive: list[str]) -> str:
    parts = []
    if missing:
        parts.append(f"Missing clusters: [{' '.join(missing)}]")
    if inactive:
        parts.append(f"Inactive clusters: [{' '.join(inactive)}]")
    return ", ".join(parts)


def is_active(cluster: MultiKueueCluster) -> bool:
    """Whether the stored condition says that the cluster is connected."""
    found = active_condition(cluster)
    return found is not None and found.status == "True"


def active_condition(cluster: MultiKueueCluster) -> Condition | None:
    return condition(cluster.status.conditions, ACTIVE)
