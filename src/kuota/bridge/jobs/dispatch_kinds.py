# SPDX-License-Identifier: Apache-2.0
"""The kinds of objects whose copies in other clusters differ from the common rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.rules.job_common import prebuilt, suspended
from kuota.api.rules.metadata import PREFIX, annotation, elastic
from kuota.api.rules.report import child, elements, integer, mapping, text, whole
from kuota.api.rules.serving import replicas

from ..job_pass.injections import MULTI_KUEUE_ORIGIN
from .batch_job_state import end
from .dispatch import ORIGIN_UID, Dispatch, SyncedStatus, copied_metadata, with_workload
from .fields import at, put
from .pod_gates import gated

if TYPE_CHECKING:
    from kuota.api.config.frameworks import GroupVersionKind

_CONTROLLER_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name")
_TEMPLATE_LABELS = ("spec", "template", "metadata", "labels")
_COUNTERS = ("succeeded", "failed")
WORKLOAD_INDEX = f"{PREFIX}component-workload-index"
_PODS = ("active", "ready", "terminating")


class JobDispatch(Dispatch):
    """A batch/v1 Job. The API server restricts how its status may change."""

    def copy(self, job: Json, workload: str, origin: str, gates: Gates) -> Json:
        """Return the copy without what the API server derived from the UID of the original."""
        found = super().copy(job, workload, origin, gates)
        spec = {name: value for name, value in found["spec"].items() if name != "selector"}
        labels = mapping(at(found, _TEMPLATE_LABELS))
        found = found | {"spec": spec}
        if not labels.keys() & set(_CONTROLLER_LABELS):
            return found
        kept = {key: value for key, value in labels.items() if key not in _CONTROLLER_LABELS}
        return put(found, _TEMPLATE_LABELS, kept)

    def status(self, job: Json, remote: Json, timestamp: str) -> SyncedStatus:
        """Return the status of the copy, or wait until the local Job is resumed.

        The start time of a running copy would make the template of a suspended Job immutable before
        the admission is injected.
        """
        if not suspended(job) or suspended(remote) or end(remote) is not None:
            return SyncedStatus(status=_counting_on(child(job, "status"), child(remote, "status")))
        return SyncedStatus(
            status=_marked_suspended(child(job, "status"), timestamp), deferred=True
        )

    def updated(self, job: Json, remote: Json, workload: str, current: str, gates: Gates) -> Json:
        """Return the copy with the size of an elastic Job, and with its newest slice."""
        if not elastic(job, gates):
            return remote
        old, new = _parallelism(remote), _parallelism(job)
        if old < new and workload != current:
            # The job has grown, and this Workload is the slice that will be replaced.
            return remote
        if old != new:
            remote = put(remote, ("spec", "parallelism"), new)
        named = prebuilt(remote, gates)[0] == workload
        return remote if named else with_workload(remote, workload, gates)

    def idle_status(self, job: Json) -> Json:
        """Return the status without running pods. The API server rejects smaller counters."""
        status = child(job, "status")
        return {key: value for key, value in status.items() if key not in _PODS}


def _counting_on(local: Json, remote: Json) -> Json:
    """Return the status of the copy with counters that do not decrease.

    They would after the second copy of a Job has replaced the first one, and the API server rejects
    that. So a counter shows the largest value of any copy.
    """
    kept = {
        field: before
        for field in _COUNTERS
        if (before := integer(local.get(field)) or 0) > (integer(remote.get(field)) or 0)
    }
    return remote | kept


def _marked_suspended(status: Json, timestamp: str) -> Json:
    """Return the status with the condition that lets the API server accept a new template."""
    conditions = [mapping(each) for each in elements(status.get("conditions"))]
    if any(each.get("type") == "Suspended" and each.get("status") == "True" for each in conditions):
        return status
    added = {
        "type": "Suspended",
        "status": "True",
        "reason": "MultiKueue",
        "message": "The Job is not admitted yet",
        "lastTransitionTime": timestamp,
        "lastProbeTime": timestamp,
    }
    others = [each for each in conditions if each.get("type") != "Suspended"]
    return status | {"conditions": [*others, added]}


def _parallelism(job: Json) -> int:
    return integer(child(job, "spec").get("parallelism")) or 0


class TrainJobDispatch(Dispatch):
    """A TrainJob."""

    def __init__(self, gvk: GroupVersionKind, manager: str) -> None:
        super().__init__(gvk, ("spec", "managedBy"))
        self._manager = manager

    def copy(self, job: Json, workload: str, origin: str, gates: Gates) -> Json:
        """Return the copy without the patch for the admission: the other cluster adds its own."""
        found = super().copy(job, workload, origin, gates)
        patches = elements(found["spec"].get("runtimePatches"))
        kept = [each for each in patches if mapping(each).get("manager") != self._manager]
        if len(kept) == len(patches):
            return found
        spec = {key: value for key, value in found["spec"].items() if key != "runtimePatches"}
        return found | {"spec": spec | ({"runtimePatches": kept} if kept else {})}


class ServingDispatch(Dispatch):
    """A StatefulSet. Its own controllers report its status in both clusters."""

    def copy(self, job: Json, workload: str, origin: str, gates: Gates) -> Json:
        """Return the copy with the UID from which the names of its Workloads are derived."""
        return _with_uid(super().copy(job, workload, origin, gates), job)

    def status(self, job: Json, remote: Json, timestamp: str) -> SyncedStatus:
        return SyncedStatus()

    def idle_status(self, job: Json) -> Json:
        return child(job, "status")


class LeaderWorkerSetDispatch(ServingDispatch):
    """A LeaderWorkerSet, which has a Workload for each replica."""

    shared = True

    def copy(self, job: Json, workload: str, origin: str, gates: Gates) -> Json:
        found = {
            "apiVersion": self.api_version,
            "kind": self.gvk.kind,
            "metadata": copied_metadata(job),
            "spec": child(job, "spec"),
        }
        return _with_uid(put(found, ("metadata", "labels", MULTI_KUEUE_ORIGIN), origin), job)

    def expected(self, job: Json) -> int:
        return replicas(job)

    def index(self, workload: Json) -> int | None:
        return workload_index(workload)


def workload_index(workload: Json) -> int | None:
    """Return the index of the replica of a Workload; None if it is unknown."""
    return whole(annotation(workload, WORKLOAD_INDEX) or "")


def _with_uid(copy: Json, job: Json) -> Json:
    uid = text(child(job, "metadata").get("uid"))
    return put(copy, ("metadata", "annotations", ORIGIN_UID), uid)


class PodDispatch(Dispatch):
    """A Pod, alone or in a group. It keeps its scheduling gates in the manager's cluster."""

    def status(self, job: Json, remote: Json, timestamp: str) -> SyncedStatus:
        """Return the status of the copy.

        An autoscaler adds nodes for pods that are unschedulable. As long as the copy has no node,
        the gated original keeps its condition.
        """
        if child(job, "metadata").get("deletionTimestamp"):
            return SyncedStatus()
        status, own = child(remote, "status"), _scheduled(job)
        placed = mapping(_scheduled(remote)).get("status") == "True"
        if own is None or placed or not gated(job):
            return SyncedStatus(status=status)
        listed = [mapping(each) for each in elements(status.get("conditions"))]
        kept = [own if each.get("type") == _SCHEDULED else each for each in listed]
        return SyncedStatus(status=status | {"conditions": kept if own in kept else [*kept, own]})

    def idle_status(self, job: Json) -> Json:
        """Return the same status: the quota of a gated pod is not in use."""
        return child(job, "status")


_SCHEDULED = "PodScheduled"


def _scheduled(pod: Json) -> Json | None:
    for each in elements(child(pod, "status").get("conditions")):
        if mapping(each).get("type") == _SCHEDULED:
            return mapping(each)
    return None
