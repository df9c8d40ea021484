# SPDX-License-Identifier: Apache-2.0
"""One pass over a group: its inputs, what is left of the copies, and the writes so far."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from kuota.api.base import Condition, Json, condition, true_condition
from kuota.api.merge_patch import difference
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, text
from kuota.bridge.conditions import MAX_MESSAGE, shortened, stamp, timestamp
from kuota.bridge.draft import Draft, StoredWorkload
from kuota.bridge.effects import Create, Effect, StatusPatch, edit
from kuota.bridge.inbound_workload import replaces
from kuota.bridge.jobs.dispatch import ForeignObject, is_owned
from kuota.bridge.jobs.kind import key_of
from kuota.bridge.lifecycle_checks import check_json

from .copies import removal, workload_named
from .group import GroupResult, RemoteCopies, WorkloadGroup

EVENT = "MultiKueue"
_EPOCH = datetime.fromtimestamp(0, UTC)


class GroupPass:
    """One pass. `remotes` are the copies that are left in connected clusters."""

    def __init__(self, group: WorkloadGroup, now: float) -> None:
        self.group = group
        self.now = now
        self.local = group.local
        self.draft = Draft(group.local, now)
        self.remotes: dict[str, RemoteCopies] = dict(group.remotes)
        self.needs: tuple[str, ...] | None = None
        """The clusters whose writes have to succeed before those to the local Workload."""
        self.nominated = False
        self.confirm = ""
        self.repeat = False
        self.dispatched: list[str] = []
        self.admitted = ""
        self._job_status: list[Effect] = []
        self._remote: dict[str, list[Effect]] = {}
        self._faults: list[str] = []

    @property
    def elastic(self) -> bool:
        return elastic(self.local.json, self.group.gates)

    @property
    def evicted(self) -> bool:
        return self.local.true("Evicted")

    @property
    def ready(self) -> bool:
        return self._check_is("Ready")

    @property
    def pending(self) -> bool:
        return self._check_is("Pending")

    def _check_is(self, state: str) -> bool:
        return self.group.check is not None and self.group.check.state == state

    @property
    def recorded(self) -> str:
        """The cluster in which the Workload is admitted, according to its status."""
        return self.local.obj.status.cluster_name or ""

    @property
    def chosen(self) -> bool:
        """Whether a cluster was chosen, which is recorded before its job is created.

        The next slice of an elastic job has the cluster of the previous one from the beginning.
        """
        inherited = self.elastic and replaces(self.local.obj) is not None
        return self.ready or (self.pending and bool(self.recorded) and not inherited)

    def copies(self) -> Iterable[tuple[str, StoredWorkload]]:
        """Yield the copies of the Workload, in the order of the configuration."""
        for cluster in self.group.clusters:
            remote = self.remotes.get(cluster)
            if remote is not None and remote.workload is not None:
                yield cluster, remote.workload

    def first_true(self, type_: str) -> tuple[str, Condition] | None:
        """Return the cluster in which a condition of the copy became true first.

        Once a cluster is recorded, copies elsewhere are left over from an earlier dispatch.
        """
        found = [
            (cluster, condition)
            for cluster, stored in self.copies()
            if self.recorded in ("", cluster)
            and (condition := true_condition(stored.obj.status.conditions, type_)) is not None
        ]
        return min(found, key=lambda each: _since(each[1]), default=None)

    def send(self, cluster: str, *effects: Effect) -> None:
        """Write to a cluster."""
        if effects:
            self._remote.setdefault(cluster, []).extend(effects)

    def remove(self, cluster: str, remote: RemoteCopies) -> None:
        """Remove the copies from a cluster. A job that other Workloads need stays."""
        group, dispatch = self.group, self.group.dispatch
        shared = dispatch is not None and dispatch.shared and self._needed_by_others(cluster)
        self.send(cluster, *removal(dispatch, remote, group.settings, jobs=not shared))
        if cluster in self.remotes:
            self.remotes[cluster] = RemoteCopies()

    def _needed_by_others(self, cluster: str) -> bool:
        return any(each.cluster == cluster for each in self.group.components)

    def set_check(self, state: str, message: str) -> bool:
        """Write the state of the check. Returns whether it changes."""
        check = self.group.check
        assert check is not None, "a Workload without a check is not dispatched"
        same_state = check.state == state
        since = check.last_transition_time if same_state else stamp(self.now)
        cut = shortened(message, MAX_MESSAGE)
        new = msgspec.structs.replace(check, state=state, message=cut, last_transition_time=since)
        if new == check:
            return False
        listed = self.local.obj.status.admission_checks or ()
        states = [check_json(new if each.name == check.name else each) for each in listed]
        self.draft.write({"admissionChecks": states})
        return True

    def retry(self, message: str) -> None:
        """Evict the Workload, so that it is dispatched again."""
        self.set_check("Retry", message)

    def fail(self, why: str) -> None:
        """Repeat the pass later."""
        self._faults.append(why)

    def report(self) -> bool:
        """Say in the message of a pending check why the Workload is not dispatched everywhere.

        Returns whether the message changes.
        """
        check = self.group.check
        if check is None or check.state != "Pending":
            return False
        known = [*self._faults, *_obstacles(self)]
        known += [f"cluster {name}: {why}" for name, why in sorted(self.group.failures.items())]
        if known:
            return self.set_check("Pending", OBSTACLE + "; ".join(dict.fromkeys(known)))
        if check.message.startswith(OBSTACLE):
            return self.set_check("Pending", "Waiting for a cluster to admit the workload")
        return False

    def sync_job(self, cluster: str, *, create: bool = True) -> bool:
        """Copy the status of the remote job, or create it. Returns whether that succeeded.

        A status that cannot be copied yet is tried again soon.
        """
        group, dispatch = self.group, self.group.dispatch
        assert dispatch is not None, "only jobs that can be dispatched have copies"
        if not group.jobs:
            self.fail(f"the {group.owner or 'job'} of workload {self.local.key} does not exist")
            return False
        remote = self.remotes[cluster]
        for job, copy in zip(group.jobs, remote.jobs, strict=True):
            try:
                found = is_owned(copy, group.settings.origin)
            except ForeignObject as error:
                self.fail(f"cluster {cluster}: {error}")
                return False
            if copy is not None and found:
                if not self._copy_back(cluster, job, copy):
                    return False
            elif create:
                self._create_job(cluster, job)
        return True

    def _create_job(self, cluster: str, job: Json) -> None:
        group, dispatch = self.group, self.group.dispatch
        assert dispatch is not None
        made = dispatch.copy(job, self.local.key.name, group.settings.origin, group.gates)
        self.send(cluster, Create(key=key_of(job), object=made, kind=dispatch.name))

    def _copy_back(self, cluster: str, job: Json, copy: Json) -> bool:
        """Write the status of a copy to its original, and changes of the original to the copy."""
        group, dispatch = self.group, self.group.dispatch
        assert dispatch is not None
        named = workload_named(copy)
        if named and named != self.local.key.name and not self.elastic:
            what = f"{dispatch.gvk.kind} {key_of(copy)}"
            self.fail(
                f"cluster {cluster}: {what} belongs to workload {named}, not to "
                f"{self.local.key.name}. It is removed if that workload no longer exists; "
                "otherwise two managers have the same origin: change multiKueue.origin of one"
            )
            return False
        synced = dispatch.status(job, copy, timestamp(self.now))
        if synced.status is not None:
            self.write_job_status(job, synced.status)
        if synced.deferred:
            self.draft.requeue_after(SOON_S)
        after = dispatch.updated(job, copy, self.local.key.name, group.current, group.gates)
        self.send(cluster, *edit(dispatch.name, key_of(copy), copy, after))
        return True

    def write_job_status(self, job: Json, status: Json) -> None:
        """Write the status of a local job, if it changes."""
        assert self.group.dispatch is not None
        change = difference(child(job, "status"), status)
        if not change:
            return
        version = text(child(job, "metadata").get("resourceVersion"))
        self._job_status.append(
            StatusPatch(
                key=key_of(job),
                resource_version=version,
                status=change,
                kind=self.group.dispatch.name,
            )
        )

    def done(self) -> GroupResult:
        result = self.draft.done()
        local = (*self._job_status, *result.effects)
        after = self.needs is not None
        return GroupResult(
            first=() if after else local,
            remote={cluster: tuple(each) for cluster, each in self._remote.items()},
            last=local if after else (),
            needs=self.needs or (),
            requeue_after_s=result.requeue_after_s,
            fault="; ".join(self._faults),
            nominated=self.nominated,
            confirm=self.confirm,
            repeat=self.repeat,
            dispatched=tuple(self.dispatched),
            admitted=self.admitted,
        )


def _obstacles(group_pass: GroupPass) -> Iterable[str]:
    """Yield why clusters cannot admit their copy before somebody corrects something there."""
    for cluster, stored in group_pass.copies():
        found = condition(stored.obj.status.conditions, "QuotaReserved")
        if found is not None and found.status == "False" and found.reason in _MISCONFIGURED:
            yield f"cluster {cluster}: {shortened(found.message, MAX_QUOTED)}"


OBSTACLE = "Not dispatched everywhere: "
_MISCONFIGURED = ("Inadmissible", "Misconfigured")
MAX_QUOTED = 1024
"""How much of a cluster's message is repeated, in bytes. There may be twenty clusters."""
SOON_S = 2.0
"""When a status that could not be copied yet is tried again."""


def _since(condition: Condition) -> datetime:
    return condition.last_transition_time or _EPOCH
