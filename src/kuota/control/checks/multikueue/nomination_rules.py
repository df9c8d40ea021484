# SPDX-License-Identifier: Apache-2.0
"""Rules about a Workload that no cluster has admitted: who gets a copy, and who may preempt."""

from __future__ import annotations

from kuota.api.gates import Gate
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import StatusPatch

from .copies import created, owned
from .group_pass import GroupPass
from .nomination import nominated, other_checks_ready, skips_nomination
from .preemption_gates import opened_status, opening


def open_preemption_gate(group_pass: GroupPass) -> bool:
    """Let the cluster preempt others that has been blocked for the longest time."""
    if not group_pass.group.gates.on(Gate.MultiKueueOrchestratedPreemption):
        return False
    copies = dict(group_pass.copies())
    found = opening(copies, group_pass.now)
    if found.cluster:
        stored = copies[found.cluster]
        patch = StatusPatch(
            key=stored.key,
            resource_version=stored.obj.metadata.resource_version,
            status=opened_status(stored, group_pass.now),
        )
        group_pass.send(found.cluster, patch)
    if found.next_s is not None:
        group_pass.draft.requeue_after(found.next_s)
    return False


def postpone_nomination(group_pass: GroupPass) -> bool:
    """Nominate no cluster if one was chosen, or if other checks are not Ready yet."""
    group, obj = group_pass.group, group_pass.local.obj
    if skips_nomination(group.check, obj, elastic=group_pass.elastic):
        return True
    return group.check is None or not other_checks_ready(obj, group.check.name)


def follow_component(group_pass: GroupPass) -> bool:
    """Send all Workloads of a job to one cluster: the one that admitted the first of them.

    The Workload with the lowest index is dispatched first, once all of them exist.
    """
    group = group_pass.group
    if group.expected is None:
        return False
    if len(group.components) + 1 < group.expected:
        return True
    chosen = sorted({each.cluster for each in group.components if each.cluster})
    if len(chosen) > 1:
        names = ", ".join(chosen)
        group_pass.fail(f"the workloads of {group.owner} are in different clusters: {names}")
        return True
    if chosen:
        _follow_component(group_pass, chosen[0])
        return True
    lower = (each.index for each in group.components if each.index is not None)
    return group.index is None or any(index < group.index for index in lower)


def _follow_component(group_pass: GroupPass, cluster: str) -> None:
    if cluster not in group_pass.remotes:
        group_pass.fail(f"cluster {cluster}, which has the rest of the job, is not connected")
        return
    if cluster not in (group_pass.local.obj.status.nominated_cluster_names or ()):
        group_pass.draft.write({"nominatedClusterNames": [cluster]})
    _synchronize(group_pass, (cluster,), gated=False)


def nominate(group_pass: GroupPass) -> bool:
    """Create copies in the nominated clusters."""
    group = group_pass.group
    if group.jobs == ():
        group_pass.fail(f"the {group.owner or 'job'} of the workload does not exist")
        return True
    found = nominated(group, group_pass.now)
    if found.stored:
        group_pass.draft.write({"nominatedClusterNames": list(found.clusters) or None})
    group_pass.nominated = found.begins
    if found.next_s is not None:
        group_pass.draft.requeue_after(found.next_s)
    _synchronize(group_pass, found.clusters, gated=True)
    group_pass.report()
    return True


def _synchronize(group_pass: GroupPass, clusters: tuple[str, ...], *, gated: bool) -> None:
    """Create missing copies in these clusters, and remove the others."""
    group, local = group_pass.group, group_pass.local
    for cluster in clusters:
        if cluster not in group_pass.remotes:
            group_pass.fail(f"cluster {cluster} is nominated and not connected")
    for cluster, remote in list(group_pass.remotes.items()):
        given = group.remotes[cluster].workload
        if cluster not in clusters:
            if not remote.empty:
                group_pass.remove(cluster, remote)
        elif given is not None and not owned(given.json, group.settings):
            group_pass.fail(_foreign(cluster, local, group.settings.origin))
        elif remote.workload is None:
            group_pass.send(cluster, created(local, group.settings, gated=gated))
            group_pass.dispatched.append(cluster)


def _foreign(cluster: str, local: StoredWorkload, origin: str) -> str:
    return (
        f"cluster {cluster}: Workload {local.key} exists and was not created by this manager with "
        f'the origin "{origin}". Delete it, or submit the job with another name'
    )
