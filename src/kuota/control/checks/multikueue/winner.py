# SPDX-License-Identifier: Apache-2.0
"""Rules about the winner: the cluster that admitted a Workload, and what follows if it is lost."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.workload import PodSetAssignment
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.slices import counts_of, scaled_down

from .copies import outdated, owned, patched, priority_changed
from .group_pass import EVENT, GroupPass


def sync_copies(group_pass: GroupPass) -> bool:
    update_copies(group_pass)
    return False


def update_copies(group_pass: GroupPass) -> None:
    """Update copies that may follow the Workload, and remove those that differ otherwise."""
    local, gates = group_pass.local, group_pass.group.gates
    for cluster, stored in list(group_pass.copies()):
        if not owned(stored.json, group_pass.group.settings):
            # Kept apart from the copies: the nomination of its cluster reports it.
            group_pass.remotes[cluster] = msgspec.structs.replace(
                group_pass.remotes[cluster], workload=None
            )
            continue
        if not outdated(local, stored, while_evicted=group_pass.evicted):
            continue
        spec = local.json.get("spec") or {}
        change: Json = {}
        if group_pass.elastic and scaled_down(counts_of(stored), counts_of(local)):
            change = {key: value for key, value in spec.items() if key != "preemptionGates"}
        if priority_changed(local, stored, gates):
            change |= {key: spec.get(key) for key in ("priorityClassRef", "priority")}
        if change:
            group_pass.send(cluster, patched(stored, change))
        else:
            group_pass.remove(cluster, group_pass.remotes[cluster])


def admitted_in(group_pass: GroupPass) -> str | None:
    """Return the cluster that runs the Workload: the recorded one, or the first that admitted it.

    Of clusters that admitted it at the same time, the first one of the configuration wins. One that
    has the job wins in any case: it was lost and has returned, or Kueue was the manager before.
    """
    recorded = group_pass.recorded
    if recorded:
        stored = recorded_copy(group_pass)
        return recorded if stored is not None and stored.true("Admitted") else None
    for cluster, stored in group_pass.copies():
        if stored.true("Admitted") and any(group_pass.remotes[cluster].jobs):
            return cluster
    found = group_pass.first_true("Admitted")
    return found[0] if found is not None else None


def run_in_winner(group_pass: GroupPass) -> bool:
    """Run the job in the cluster that admitted the Workload, and nowhere else.

    The cluster is recorded before the job is created there. So a manager that is killed in between
    continues with the same cluster, also if that is away: no other cluster may run the job.
    """
    winner = admitted_in(group_pass)
    if winner is None:
        if group_pass.chosen:
            _lost(group_pass)
        return group_pass.chosen
    assert group_pass.group.check is not None
    undecided = group_pass.group.check.state not in ("Retry", "Rejected")
    if not group_pass.recorded:
        if undecided:
            _record(group_pass, winner)
        return True
    if group_pass.group.failures and group_pass.report():
        group_pass.repeat = True
        return True
    keep_only(group_pass, winner)
    group_pass.needs = (winner,)
    if not group_pass.sync_job(winner):
        return True
    stored = group_pass.remotes[winner].workload
    assert stored is not None, "an admitted copy exists"
    _mark_placed(group_pass, stored)
    if undecided:
        _set_ready(group_pass, winner)
    group_pass.draft.requeue_after(group_pass.group.settings.worker_lost_timeout_s)
    return True


def _record(group_pass: GroupPass, winner: str) -> None:
    """Record the winner. The API server accepts only a nominated cluster.

    The winner was not nominated if its cluster was lost and returned, for example.
    """
    if winner in (group_pass.local.obj.status.nominated_cluster_names or ()):
        group_pass.draft.write({"clusterName": winner, "nominatedClusterNames": None})
    else:
        group_pass.draft.write({"nominatedClusterNames": [winner]})
    group_pass.repeat = True


def _set_ready(group_pass: GroupPass, winner: str) -> None:
    message = f"The workload is admitted in cluster {winner}"
    if not group_pass.ready:
        group_pass.admitted = winner
    group_pass.set_check("Ready", message)
    group_pass.draft.record_event(EVENT, message)


def keep_only(group_pass: GroupPass, winner: str) -> None:
    for cluster, remote in list(group_pass.remotes.items()):
        if cluster != winner and not remote.empty:
            group_pass.remove(cluster, remote)


def _mark_placed(group_pass: GroupPass, remote: StoredWorkload) -> None:
    """Mark delayed topology requests as Ready that the cluster has assigned."""
    local = group_pass.local.obj.status.admission
    there = remote.obj.status.admission
    if local is None or there is None:
        return
    assigned = {
        each.name
        for each in there.pod_set_assignments or ()
        if each.topology_assignment is not None
    }
    sets = local.pod_set_assignments or []
    if not any(each.name in assigned and _delayed(each) for each in sets):
        return
    ready = [
        msgspec.structs.replace(each, delayed_topology_request="Ready")
        if each.name in assigned and _delayed(each)
        else each
        for each in sets
    ]
    group_pass.draft.write({"admission": {"podSetAssignments": msgspec.to_builtins(ready)}})


def _delayed(assignment: PodSetAssignment) -> bool:
    return assignment.delayed_topology_request == "Pending"


def _lost(group_pass: GroupPass) -> None:
    """Decide about a Workload that no cluster runs, although one was chosen."""
    cluster, group = group_pass.recorded, group_pass.group
    if cluster in group.lost:
        keep_only(group_pass, cluster)
        wait_s = left_s(group_pass, cluster)
        if wait_s > 0:
            group_pass.draft.requeue_after(wait_s)
        else:
            group_pass.retry(f"Cluster {cluster} is lost; dispatching the workload again")
    elif not cluster:
        wait_s = max((left_s(group_pass, each) for each in group.lost), default=0.0)
        if wait_s > 0:
            # One of the lost clusters may run it.
            group_pass.draft.requeue_after(wait_s)
        else:
            group_pass.retry("The check is ready, but no cluster is recorded; dispatching it again")
    elif cluster in group_pass.remotes:
        group_pass.retry(f"The workload is gone from cluster {cluster}; dispatching it again")
    else:
        group_pass.retry(f"Cluster {cluster} is no longer configured; dispatching it again")


def left_s(group_pass: GroupPass, cluster: str) -> float:
    """Return for how long a cluster that is not connected may still return."""
    lost_s = group_pass.now - group_pass.group.lost[cluster]
    return group_pass.group.settings.worker_lost_timeout_s - lost_s


def recorded_copy(group_pass: GroupPass) -> StoredWorkload | None:
    remote = group_pass.remotes.get(group_pass.recorded)
    return remote.workload if remote is not None else None
