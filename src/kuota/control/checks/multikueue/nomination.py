# SPDX-License-Identifier: Apache-2.0
"""Dispatchers: which clusters get a copy of a Workload."""

from __future__ import annotations

from kuota.api.config.defaults import ALL_AT_ONCE, INCREMENTAL
from kuota.api.gates import Gate
from kuota.api.rules.metadata import elastic
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.engine.model import Struct

from .group import WorkloadGroup

ROUND_S = 300.0
"""How long the incremental dispatcher waits before it nominates further clusters."""


class Nomination(Struct):
    """The nominated clusters. `begins` is whether a round begins, `next_s` when the next does.

    `stored` is whether Kuota writes the names into the status.
    """

    clusters: tuple[str, ...] = ()
    begins: bool = False
    next_s: float | None = None
    stored: bool = True


def skips_nomination(check: AdmissionCheckState | None, obj: Workload, *, elastic: bool) -> bool:
    """Whether no cluster is nominated: the check is decided, or a cluster was chosen.

    Of an elastic job, the next slice is sent to the cluster of the previous one.
    """
    if check is None or check.state != "Pending":
        return True
    return obj.status.cluster_name is not None and not elastic


def other_checks_ready(obj: Workload, check: str) -> bool:
    """Whether all other checks are Ready. Before that, no other cluster reserves quota."""
    others = [each for each in obj.status.admission_checks or () if each.name != check]
    return all(each.state == "Ready" for each in others)


def nominated(group: WorkloadGroup, now: float) -> Nomination:
    """Return the clusters that get a copy now. Earlier ones stay nominated."""
    status, settings = group.local.obj.status, group.settings
    before = tuple(status.nominated_cluster_names or ())
    chosen = status.cluster_name
    if chosen and elastic(group.local.json, group.gates):
        return Nomination(clusters=(chosen,), stored=False)
    if settings.dispatcher == ALL_AT_ONCE:
        found = tuple(sorted(group.remotes))
        return Nomination(clusters=found, stored=set(found) != set(before))
    if settings.dispatcher == INCREMENTAL:
        return _next_round(group, before, now)
    return Nomination(clusters=before, stored=False)


def _next_round(group: WorkloadGroup, before: tuple[str, ...], now: float) -> Nomination:
    """Return the nomination of the next clusters in order, once the round is over.

    The start of a round is not stored, so that a restart of the manager begins one.
    """
    started = group.round_started
    if started is not None and now - started <= ROUND_S:
        left_s = ROUND_S - (now - started)
        return Nomination(clusters=before, next_s=left_s, stored=False)
    left = [each for each in group.clusters if each not in before]
    if not group.gates.on(Gate.MultiKueueIncrementalDispatcherRespectConfigOrder):
        left.sort()
    if not left:
        return Nomination(clusters=before, stored=False)
    found = (*before, *left[: group.settings.step_size])
    more = len(left) > group.settings.step_size
    return Nomination(clusters=found, begins=True, next_s=ROUND_S if more else None)
