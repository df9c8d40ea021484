# SPDX-License-Identifier: Apache-2.0
"""Rules about evictions, by the manager and by the cluster in which a Workload runs."""

from __future__ import annotations

from kuota.api.base import Json, condition
from kuota.bridge.conditions import Conditions
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import StatusPatch

from .group_pass import EVENT, GroupPass
from .winner import admitted_in, keep_only, left_s, recorded_copy, update_copies

EVICTED_HERE = "EvictedOnManagerCluster"


def stop_evicted(group_pass: GroupPass) -> bool:
    """Stop the job of a Workload that is evicted, and report when it has no pods."""
    if not group_pass.evicted:
        return False
    found = group_pass.first_true("Evicted")
    if found is not None:
        group_pass.sync_job(found[0], create=False)
        return True
    update_copies(group_pass)
    running = admitted_in(group_pass)
    if running is None:
        _idle(group_pass)
        return True
    keep_only(group_pass, running)
    stored = group_pass.remotes[running].workload
    assert stored is not None, "an admitted copy exists"
    evicted = condition(group_pass.local.obj.status.conditions, "Evicted")
    message = f"Evicted by the manager: {evicted.message if evicted is not None else ''}"
    status = _deactivated(stored, message, group_pass.now)
    if status:
        version = stored.obj.metadata.resource_version
        group_pass.send(
            running, StatusPatch(key=stored.key, resource_version=version, status=status)
        )
    if any(group_pass.remotes[running].jobs):
        group_pass.sync_job(running, create=False)
    else:
        _show_no_pods(group_pass)
    return True


def _deactivated(stored: StoredWorkload, message: str, now: float) -> Json:
    """Return the status patch by which a cluster stops a Workload for good."""
    conditions = Conditions(stored.obj.status.conditions, now, stored.obj.metadata.generation)
    conditions.put("DeactivationTarget", True, EVICTED_HERE, message)
    return {"conditions": conditions.json()} if conditions.changed else {}


def _idle(group_pass: GroupPass) -> None:
    """Let the local job show no pods if no cluster runs it.

    A cluster that is not connected may still run it. It counts until it has been lost for too long.
    """
    group = group_pass.group
    for cluster, remote in group_pass.remotes.items():
        if any(remote.jobs):
            group_pass.sync_job(cluster, create=False)
            return
    wait_s = max((left_s(group_pass, cluster) for cluster in group.lost), default=0.0)
    if wait_s > 0:
        group_pass.draft.requeue_after(wait_s)
        return
    _show_no_pods(group_pass)


def _show_no_pods(group_pass: GroupPass) -> None:
    group = group_pass.group
    assert group.dispatch is not None
    for job in group.jobs:
        group_pass.write_job_status(job, group.dispatch.idle_status(job))


def evict_with_copy(group_pass: GroupPass) -> bool:
    """Evict a Workload whose copy was evicted, for example by a preemption in its cluster."""
    stored = recorded_copy(group_pass)
    found = group_pass.first_true("Evicted") if not group_pass.recorded else None
    there = (stored is not None and stored.true("Evicted")) or found is not None
    if not there or not group_pass.chosen:
        return False
    cluster = group_pass.recorded or (found[0] if found is not None else "")
    message = f"The workload was evicted in cluster {cluster}; dispatching it again"
    group_pass.retry(message)
    group_pass.draft.record_event(EVENT, message)
    return True
