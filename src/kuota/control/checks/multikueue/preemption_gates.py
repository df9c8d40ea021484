# SPDX-License-Identifier: Apache-2.0
"""Orchestrated preemption: only one cluster at a time may preempt others for a Workload."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.base import Json, true_condition
from kuota.api.workload import PreemptionGateState
from kuota.bridge.conditions import timestamp
from kuota.bridge.draft import StoredWorkload
from kuota.engine.model import Struct

from .copies import PREEMPTION_GATE

SINGLE_CLUSTER_S = 300.0
"""How long one cluster may preempt before another one is allowed to."""


class GateOpening(Struct):
    """The cluster whose gate opens now, "" for none, and when the next one may."""

    cluster: str = ""
    next_s: float | None = None


def opening(copies: Mapping[str, StoredWorkload], now: float) -> GateOpening:
    """Return the cluster that has been blocked for the longest time, unless one was just opened.

    Of clusters that are blocked since the same time, the first one in the order of `copies` wins.
    """
    opened: list[float] = []
    blocked: list[tuple[float, str]] = []
    for cluster, stored in copies.items():
        gate = gate_of(stored)
        if gate is not None and gate.position == "Open":
            since = gate.last_transition_time
            opened.append(since.timestamp() if since is not None else 0.0)
            continue
        found = true_condition(stored.obj.status.conditions, "BlockedOnPreemptionGates")
        if found is not None:
            since = found.last_transition_time
            blocked.append((since.timestamp() if since is not None else 0.0, cluster))
    if not blocked:
        return GateOpening()
    left_s = SINGLE_CLUSTER_S - (now - max(opened)) if opened else 0.0
    if left_s > 0:
        return GateOpening(next_s=left_s)
    cluster = min(blocked, key=lambda each: each[0])[1]
    return GateOpening(cluster=cluster, next_s=SINGLE_CLUSTER_S)


def gate_of(stored: StoredWorkload) -> PreemptionGateState | None:
    """Return the state of the manager's gate on a copy."""
    gates = stored.obj.status.preemption_gates or ()
    return next((each for each in gates if each.name == PREEMPTION_GATE), None)


def opened_status(stored: StoredWorkload, now: float) -> Json:
    """Return the status patch that opens the gate."""
    opened: Json = {
        "name": PREEMPTION_GATE,
        "position": "Open",
        "lastTransitionTime": timestamp(now),
    }
    known = stored.obj.status.preemption_gates or []
    if gate_of(stored) is None:
        return {"preemptionGates": [*msgspec.to_builtins(known), opened]}
    listed = [
        opened if each.name == PREEMPTION_GATE else msgspec.to_builtins(each) for each in known
    ]
    return {"preemptionGates": listed}
