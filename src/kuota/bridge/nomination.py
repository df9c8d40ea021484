# SPDX-License-Identifier: Apache-2.0
"""When worker clusters may be proposed for a workload that a MultiKueue check sends away."""

from __future__ import annotations

from kuota.api.workload import AdmissionCheckState, Workload


def may_nominate(obj: Workload, state: AdmissionCheckState | None, *, elastic: bool) -> bool:
    """Whether worker clusters may be proposed for it, by the state of its MultiKueue check.

    Once a cluster has it no other is asked, except for a new slice of an elastic job.
    """
    if state is None or state.state != "Pending":
        return False
    return elastic or not obj.status.cluster_name
