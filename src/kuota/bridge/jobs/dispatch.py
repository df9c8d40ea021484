# SPDX-License-Identifier: Apache-2.0
"""How MultiKueue runs a job in another cluster: its copy there, and the status that comes back.

The copy has the name of the job, names the Workload that was dispatched with it, and carries the
label of the manager. Objects without that label belong to others: they are neither read, changed
nor deleted. An instance is stateless and describes one kind of objects.
"""

from __future__ import annotations

from kuota.api import names
from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import MULTIKUEUE
from kuota.api.rules.job_common import PREBUILT
from kuota.api.rules.metadata import PREFIX
from kuota.api.rules.report import child, mapping, string_map, text
from kuota.engine.model import Struct

from ..job_pass.injections import MULTI_KUEUE_ORIGIN
from .ancestor import GroupKind
from .fields import Path, at, put

OWNER_GVK = f"{PREFIX}job-owner-gvk"
OWNER_NAME = f"{PREFIX}job-owner-name"
"""The annotations of a Workload with the kind and the name of a job that does not control it."""
ORIGIN_UID = f"{PREFIX}multikueue-origin-uid"
"""The annotation with the UID of the original, from which names of Workloads are derived."""

TIME_TO_LIVE = "ttlSecondsAfterFinished"
"""The field that lets a cluster delete a finished job."""


class OriginMissing(ValueError):
    """The manager has no origin, so that nothing in another cluster can be recognized."""


class ForeignObject(ValueError):
    """An object in another cluster has the name of a copy and was not created by this manager."""


class SyncedStatus(Struct):
    """The new status of a local job; None if it stays.

    `deferred` is whether the status of the copy cannot be written yet, so that the pass has to be
    repeated soon.
    """

    status: Json | None = None
    deferred: bool = False


class Dispatch:
    """The copies of one kind of objects. `managed_by` is the path of that field, if it has one."""

    shared = False
    """Whether all Workloads of a job have one copy of the job in common."""

    def __init__(self, gvk: GroupVersionKind, managed_by: Path = ()) -> None:
        self.gvk = gvk
        self.managed_by = managed_by

    @property
    def group_kind(self) -> GroupKind:
        return self.gvk.group, self.gvk.kind

    @property
    def name(self) -> str:
        """The name of the kind in effects."""
        return ".".join(part for part in (self.gvk.kind, self.gvk.group) if part)

    def refusal(self, job: Json, gates: Gates) -> str:
        """Return why the job must not be dispatched; "" if it can be."""
        if not self.managed_by:
            return ""
        found, path = text(at(job, self.managed_by)), ".".join(map(str, self.managed_by))
        return "" if found == MULTIKUEUE else f'{path} must be "{MULTIKUEUE}", is "{found}"'

    def copy(self, job: Json, workload: str, origin: str, gates: Gates) -> Json:
        """Return the object to create in the other cluster.

        Its own controller manages it there, and it adopts the Workload of this name.
        """
        found = {
            "apiVersion": self.api_version,
            "kind": self.gvk.kind,
            "metadata": copied_metadata(job),
            "spec": mapping(job.get("spec")),
        }
        return named(_unmanaged(found, self.managed_by), workload, origin, gates)

    @property
    def api_version(self) -> str:
        return f"{self.gvk.group}/{self.gvk.version}" if self.gvk.group else self.gvk.version

    def status(self, job: Json, remote: Json, timestamp: str) -> SyncedStatus:
        """Return the status of the local job, given its copy. `timestamp` is the present time."""
        return SyncedStatus(status=child(remote, "status"))

    def updated(self, job: Json, remote: Json, workload: str, current: str, gates: Gates) -> Json:
        """Return the copy with the changes of the job that are forwarded while it runs.

        `workload` is the dispatched Workload, and `current` the name of the Workload that describes
        the job as it is now.
        """
        return remote

    def idle_status(self, job: Json) -> Json:
        """Return the status of a local job whose copy is lost, so that it has no pods."""
        return {}

    def expected(self, job: Json) -> int:
        """Return how many Workloads a job has, if they share its copy."""
        return 1

    def index(self, workload: Json) -> int | None:
        """Return the position of one of several Workloads of a job; None if it is unknown."""
        return None


def copied_metadata(obj: Json) -> Json:
    """Return name, namespace, labels and annotations, as far as there are any."""
    meta = child(obj, "metadata")
    kept = ("name", "namespace", "labels", "annotations")
    return {field: meta[field] for field in kept if meta.get(field)}


def named(obj: Json, workload: str, origin: str, gates: Gates) -> Json:
    """Return the object with the origin, and with the name of its Workload."""
    return with_workload(
        put(obj, ("metadata", "labels", MULTI_KUEUE_ORIGIN), origin), workload, gates
    )


def with_workload(obj: Json, workload: str, gates: Gates) -> Json:
    """Return the object with the name of its Workload, in an annotation or in a label."""
    annotated = gates.on(Gate.WorkloadIdentifierAnnotations) or len(workload) > names.MAX_LABEL
    return put(obj, ("metadata", "annotations" if annotated else "labels", PREBUILT), workload)


def _unmanaged(obj: Json, path: Path) -> Json:
    """Return the object without the field `managedBy`, and without a time to live beside it.

    The manager deletes the copy once it has recorded its end. A copy that was deleted before would
    be lost, and the job would run again.
    """
    *parents, field = path or ("",)
    above, dropped = mapping(at(obj, parents)), {field, TIME_TO_LIVE}
    if not dropped & above.keys():
        return obj
    return put(obj, parents, {name: each for name, each in above.items() if name not in dropped})


def is_owned(remote: Json | None, origin: str) -> bool:
    """Whether a remote object exists and was created by the manager with this origin.

    Raises OriginMissing if the manager has none, and ForeignObject if the object is another's.
    """
    if not origin:
        raise OriginMissing("the configuration has an empty multiKueue.origin; set a name")
    if remote is None:
        return False
    found = string_map(child(remote, "metadata", "labels")).get(MULTI_KUEUE_ORIGIN)
    if found == origin:
        return True
    meta, kind = child(remote, "metadata"), text(remote.get("kind")) or "object"
    key = Key(text(meta.get("namespace")), text(meta.get("name")))
    owner = f'has the origin "{found}"' if found is not None else "was not created by MultiKueue"
    raise ForeignObject(
        f'{kind} {key} exists in the cluster and {owner}; this manager has the origin "{origin}". '
        "Rename the job, or delete the other object"
    )
