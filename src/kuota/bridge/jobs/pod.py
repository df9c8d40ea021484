# SPDX-License-Identifier: Apache-2.0
"""The plain Pod: gated until it is admitted, and deleted when it has to stop.

A Pod that belongs to a group is part of another job, see `kuota.bridge.jobs.pod_group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.core import ENDED, is_terminated
from kuota.api.faults import FieldError
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.api.rules.pod import ADMISSION_GATE, pod_faults, pod_warnings
from kuota.api.rules.report import child, elements, mapping, text

from ..cached import reduced_pod
from ..conditions import timestamp
from ..effects import Delete, Effect, Event, StatusPatch, edit
from . import pod_webhook
from .ancestor import Lookup
from .composable import StopCause
from .dispatch import Dispatch
from .dispatch_kinds import PodDispatch
from .kind import End, JobKind, Stop, key_of
from .pod_gates import (
    POD_INDEX,
    TOPOLOGY_GATE,
    deleting,
    finalized,
    gated,
    has_gate,
    has_parent,
    managed,
    uid,
    without_gate,
)
from .template_kind import merged_template
from .topology_request import topology_request

if TYPE_CHECKING:
    from ..lifecycle_view import LifecycleConfig

POD = "pod"
MAIN = "main"
WORKLOAD_DELETED = "WorkloadDeleted"
_RANKS = {"podIndexLabel": POD_INDEX}
_TERMINATION = "TerminationTarget"


class PodKind(JobKind):
    """A single Pod. With `only_with_parent`, other Pods are ignored.

    That is the case if another integration, such as that of Deployments, needs this one and the
    configuration does not name it.
    """

    framework = POD
    ranked = True
    prebuilt = True
    described_pod_sets = "`main`: the pod"
    described_suspension = "scheduling gate; stopping deletes the pod"
    gvk = FRAMEWORKS[POD]
    ancestors = False
    stays_gated = True
    held_from_creation = True

    def __init__(self, *, only_with_parent: bool = False) -> None:
        self._only_with_parent = only_with_parent

    def dispatch(self) -> Dispatch | None:
        return PodDispatch(self.gvk)

    def implied(self) -> PodKind:
        return PodKind(only_with_parent=True)

    def skipped(self, job: Json, gates: Gates) -> bool:
        return unqueued(job, only_with_parent=self._only_with_parent)

    def cached(self, obj: Json) -> Json:
        """Return little of a Pod that is not queued: clusters have many of them."""
        return obj if managed(obj) or has_parent(obj) else reduced_pod(obj)

    def rarely_read(self, obj: Json) -> bool:
        return has_no_processes(obj) or not (managed(obj) or has_parent(obj))

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        return [pod_set(job, MAIN, 1, gates)]

    def suspended(self, job: Json) -> bool:
        return has_no_processes(job)

    def suspend(self, job: Json) -> Json:
        """Return the same Pod: a gate cannot be added to an existing one."""
        return job

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        if len(given) != 1:
            raise MergeConflict(f"a Pod has one pod set, the admission has {len(given)}")
        return started(job, given[0])

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Return nothing: `terminate` stops Pods."""
        return Stop()

    def terminate(self, job: Json, cause: StopCause) -> list[Effect]:
        return list(terminated([job], cause))

    def end(self, job: Json) -> End | None:
        phase = child(job, "status").get("phase")
        if phase not in ENDED:
            return None
        return End(success=phase == "Succeeded", message=text(child(job, "status").get("message")))

    def active(self, job: Json) -> bool:
        """Return False: the quota of a single Pod is released as soon as it is being deleted."""
        return False

    def pods_ready(self, job: Json) -> bool:
        return ready(job)

    def pod_priority_class(self, job: Json) -> str:
        return text(child(job, "spec").get("priorityClassName"))

    def finalize(self, job: Json) -> list[Effect]:
        return list(released([job]))

    def own_defaults(self, job: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
        if self._only_with_parent and not has_parent(job):
            return job
        return pod_webhook.defaulted(job, look_up, config)

    def faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool, default_queue: bool
    ) -> Iterator[FieldError]:
        yield from pod_faults(job, old, gates, default_queue=default_queue)

    def warnings(self, job: Json, old: Json | None, *, owned: bool) -> list[FieldError]:
        return pod_warnings(job, old, owned=owned)


def unqueued(pod: Json, *, only_with_parent: bool) -> bool:
    """Whether a pod is not queued."""
    return not managed(pod) or (only_with_parent and not has_parent(pod))


def has_no_processes(pod: Json) -> bool:
    """Whether the pod has no processes yet, or no longer."""
    return is_terminated({"status": child(pod, "status")}) or gated(pod)


def ready(pod: Json) -> bool:
    conditions = elements(child(pod, "status").get("conditions"))
    found = next((each for each in conditions if mapping(each).get("type") == "Ready"), None)
    return mapping(found).get("status") == "True"


def pod_set(pod: Json, name: str, count: int, gates: Gates) -> Json:
    """Return a pod set of pods like this one. Raises TopologyRequestError."""
    found: Json = {
        "name": name,
        "count": count,
        "template": {"metadata": {}, "spec": child(pod, "spec")},
    }
    if gates.on(Gate.TopologyAwareScheduling):
        found["topologyRequest"] = topology_request(pod, gates, _RANKS)
    return found


def started(pod: Json, added: Injection) -> list[Effect]:
    """Return the write that injects an admission and removes the gate. Raises MergeConflict.

    The topology gate stays only if the admission places the pod.
    """
    if not gated(pod):
        return []
    after = without_gate(merged_template(pod, added, elastic=True), ADMISSION_GATE)
    placed = {mapping(each).get("name") for each in added.scheduling_gates or ()}
    if TOPOLOGY_GATE not in placed and has_gate(after, TOPOLOGY_GATE):
        after = without_gate(after, TOPOLOGY_GATE)
    return edit("Pod", key_of(pod), pod, after)


def terminated(pods: Iterable[Json], cause: StopCause) -> Iterable[Effect]:
    """Yield the writes that delete running pods, each with the reason and an event.

    Gated and finished pods are deleted only together with their Workload.
    """
    for pod in pods:
        if deleting(pod) or (cause.reason != WORKLOAD_DELETED and has_no_processes(pod)):
            continue
        key = key_of(pod)
        version = text(child(pod, "metadata").get("resourceVersion"))
        status = {"conditions": _with_target(pod, cause)}
        yield StatusPatch(key=key, resource_version=version, status=status, kind="Pod")
        yield Delete(key=key, uid=uid(pod), kind="Pod")
        yield Event.about(key, "Stopped", cause.message, kind="Pod")


def _with_target(pod: Json, cause: StopCause) -> list[Json]:
    listed = elements(child(pod, "status").get("conditions"))
    kept = [each for each in listed if mapping(each).get("type") != _TERMINATION]
    added = {
        "type": _TERMINATION,
        "status": "True",
        "reason": cause.reason,
        "message": cause.message,
        "lastTransitionTime": timestamp(cause.now),
    }
    return [*kept, added]


def released(pods: Iterable[Json]) -> Iterable[Effect]:
    """Yield the writes that remove the finalizer of these pods."""
    for pod in pods:
        yield from edit("Pod", key_of(pod), pod, finalized(pod))
