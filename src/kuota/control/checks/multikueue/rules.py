# SPDX-License-Identifier: Apache-2.0
"""The rules of MultiKueue for one Workload and its copies, in Kueue's order.

The first rule that applies ends the pass. These cases go beyond Kueue, because a job must not run
twice and must not get stuck:

- The winner is recorded before its job is created, and a copy elsewhere never takes its place. Such
  a copy may return with a cluster that was lost.
- Copies in clusters that are no longer configured are removed.
- No cluster is nominated while the Workload is being evicted.
- If a Workload is evicted and no cluster has its job, the status of the local job shows that it has
  no pods. Otherwise its quota would never be released.
- A copy that finished because its job was deleted in the worker cluster is dispatched again, and so
  is one whose job was deleted afterwards: without its status the local job would never end.
- A copy of an earlier dispatch that did not succeed is removed, because the Workload was dispatched
  again. If it succeeded, its job need not run again.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import true_condition
from kuota.api.workload import TIMED_OUT
from kuota.bridge.inbound_workload import REPLACED, replaces
from kuota.bridge.job_pass.slices import end_reason

from .eviction import evict_with_copy, stop_evicted
from .group import GroupResult, RemoteCopies, WorkloadGroup
from .group_pass import EVENT, GroupPass
from .identity import of_earlier_dispatch
from .nomination_rules import follow_component, nominate, open_preemption_gate, postpone_nomination
from .winner import run_in_winner, sync_copies

SUCCEEDED = "Succeeded"
UNFINISHED = frozenset({"OutOfSync", "OwnerNotFound"})
"""Reasons for which a copy is Finished although its job did not end."""

Step = Callable[[GroupPass], bool]


def reconcile_group(group: WorkloadGroup, now: float) -> GroupResult:
    """Return the writes of one pass over a group."""
    group_pass = GroupPass(group, now)
    any(step(group_pass) for step in _STEPS)
    return group_pass.done()


def skip_undispatched(group_pass: GroupPass) -> bool:
    """Ignore a Workload without the check, or with a rejected one. It must not have copies."""
    group = group_pass.group
    if group.check is not None and group.check.state != "Rejected":
        return False
    if not group.deleted:
        _remove_all(group_pass)
    return True


def reject_undispatchable(group_pass: GroupPass) -> bool:
    """Reject a Workload whose job cannot be dispatched. It would wait forever."""
    group = group_pass.group
    if group.dispatch is None:
        what = f"jobs of kind {group.owner}" if group.owner else "a workload without an owner"
        group_pass.set_check("Rejected", f"MultiKueue cannot dispatch {what}")
        return True
    if group.deleted or not group.jobs:
        # The owner of a deleted Workload may be gone as well.
        return False
    why = group.dispatch.refusal(group.jobs[0], group.gates)
    if why:
        group_pass.set_check("Rejected", f"The job is not managed by MultiKueue: {why}")
    return bool(why)


def clean_up_deleted(group_pass: GroupPass) -> bool:
    """Remove the copies of a deleted Workload. Garbage collection covers lost clusters."""
    if group_pass.group.deleted:
        _remove_all(group_pass)
    return group_pass.group.deleted


def leave_removed_clusters(group_pass: GroupPass) -> bool:
    """Remove the copies from clusters that are not configured."""
    for cluster, remote in group_pass.group.removed.items():
        group_pass.remove(cluster, remote)
    return False


def skip_inactive_slice(group_pass: GroupPass) -> bool:
    """Ignore a replaced slice of an elastic job, and one that waits to replace another."""
    if not group_pass.elastic:
        return False
    local = group_pass.local
    if local.true("Finished"):
        return end_reason(local) == REPLACED
    return not local.reserved and replaces(local.obj) is not None


def clean_up_unreserved(group_pass: GroupPass) -> bool:
    """Remove the copies of a Workload that is finished or has no quota."""
    local, group = group_pass.local, group_pass.group
    if not local.true("Finished") and local.reserved:
        return False
    _remove_all(group_pass)
    if group.lost:
        group_pass.draft.requeue_after(group.settings.worker_lost_timeout_s)
    return True


def remove_earlier_copies(group_pass: GroupPass) -> bool:
    """Remove copies of earlier dispatches that finished without success.

    Such a copy returns with a cluster that was lost, after others were nominated.
    """
    for cluster, stored in list(group_pass.copies()):
        end = true_condition(stored.obj.status.conditions, "Finished")
        if end is None or end.reason == SUCCEEDED:
            continue
        if of_earlier_dispatch(stored, group_pass.local):
            group_pass.remove(cluster, group_pass.remotes[cluster])
    return False


def finish_with_copy(group_pass: GroupPass) -> bool:
    """Finish a Workload whose copy is finished, as soon as the job has the status of its copy."""
    found = group_pass.first_true("Finished")
    if found is None:
        return False
    cluster, end = found
    if end.reason in UNFINISHED and not group_pass.elastic:
        return _unfinished(group_pass, cluster, end.reason)
    if group_pass.group.confirmed != cluster:
        # The watches of Workloads and of jobs are independent: the known status may be older.
        group_pass.confirm = cluster
    elif group_pass.group.jobs and not any(group_pass.remotes[cluster].jobs):
        return _unfinished(group_pass, cluster, "the job is gone")
    elif group_pass.sync_job(cluster, create=False):
        group_pass.draft.set_condition("Finished", True, end.reason, end.message)
        late = group_pass.first_true(TIMED_OUT)
        if late is not None:
            group_pass.draft.set_condition(TIMED_OUT, True, late[1].reason, late[1].message)
    return True


def _unfinished(group_pass: GroupPass, cluster: str, reason: str) -> bool:
    """Dispatch a Workload again whose copy lost its job, unless it is being evicted already.

    Before a cluster was chosen, only the copy is created again.
    """
    if group_pass.chosen:
        note = f"The workload in cluster {cluster} no longer matches its job ({reason})"
        group_pass.retry(f"{note}; dispatching it again")
        group_pass.draft.record_event(EVENT, f"{note}; dispatching it again", warning=True)
    elif group_pass.pending and not group_pass.evicted:
        group_pass.remove(cluster, group_pass.remotes[cluster])
        return False
    return not group_pass.evicted


def _remove_all(group_pass: GroupPass) -> None:
    everywhere: dict[str, RemoteCopies] = {**group_pass.remotes, **group_pass.group.removed}
    for cluster, remote in everywhere.items():
        if not remote.empty:
            group_pass.remove(cluster, remote)


_STEPS: tuple[Step, ...] = (
    skip_undispatched,
    reject_undispatchable,
    clean_up_deleted,
    leave_removed_clusters,
    skip_inactive_slice,
    clean_up_unreserved,
    remove_earlier_copies,
    finish_with_copy,
    stop_evicted,
    evict_with_copy,
    sync_copies,
    run_in_winner,
    open_preemption_gate,
    postpone_nomination,
    follow_component,
    nominate,
)
