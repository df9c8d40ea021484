# SPDX-License-Identifier: Apache-2.0
"""The batch/v1 Job. The Jobs of a CronJob are queued one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kuota.api.base import Json
from kuota.api.config.frameworks import BATCH_JOB, FRAMEWORKS
from kuota.api.faults import FieldError
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection
from kuota.api.rules.job import (
    EQUAL_COMPLETIONS,
    MIN_PARALLELISM,
    job_faults,
    pod_count,
)
from kuota.api.rules.job_common import STOPPING, suspended
from kuota.api.rules.metadata import ELASTIC_JOB, annotation, elastic
from kuota.api.rules.report import child, elements, integer, mapping, truth, whole
from kuota.api.workload import ReclaimablePod

from ..effects import Effect, StatusPatch
from .batch_job_state import MAIN, active, end, pods_ready, reclaimable
from .dispatch import Dispatch
from .dispatch_kinds import JobDispatch
from .fields import put
from .kind import End, Stop, key_of
from .template_kind import Template, TemplateKind

RANKS = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
"""The fields of a topology request that define the order of the pods of a Job."""

_TEMPLATE = ("spec", "template")
_IDENTITY = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid", "job-name"})
_KEPT = _IDENTITY | {"batch.kubernetes.io/job-name"}


class BatchJob(TemplateKind):
    """A Job. It has one pod set, with as many pods as run at once."""

    framework = BATCH_JOB
    ranked = True
    prebuilt = True
    described_pod_sets = "`main`: pods that run at once"
    partial_admission = True
    gvk = FRAMEWORKS[BATCH_JOB]
    managed_by = ("spec", "managedBy")
    native_manager = "kubernetes.io/job-controller"

    def dispatch(self) -> Dispatch | None:
        return JobDispatch(self.gvk, self.managed_by)

    def templates(self, job: Json) -> Sequence[Template]:
        least = whole(annotation(job, MIN_PARALLELISM) or "")
        return [
            Template(name=MAIN, count=pod_count(job), path=_TEMPLATE, min_count=least, ranks=RANKS)
        ]

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        sets = super().pod_sets(job, gates)
        if not gates.on(Gate.PartialAdmission):
            sets[0].pop("minCount", None)
        return sets

    def pod_template(self, job: Json, template: Template) -> Json:
        """Return the template without the labels that the Job controller adds."""
        pod = super().pod_template(job, template)
        labels = child(pod, "metadata").get("labels")
        if not isinstance(labels, dict) or _IDENTITY.isdisjoint(labels):
            return pod
        kept = {key: value for key, value in labels.items() if key not in _IDENTITY}
        return pod | {"metadata": child(pod, "metadata") | {"labels": kept}}

    def suspended(self, job: Json) -> bool:
        return suspended(job)

    def end(self, job: Json) -> End | None:
        return end(job)

    def active(self, job: Json) -> bool:
        return active(job)

    def pods_ready(self, job: Json) -> bool:
        return pods_ready(job)

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        return reclaimable(job, exact=exact)

    def slice_suffix(self, job: Json) -> str:
        return str(integer(child(job, "metadata").get("generation")) or 0)

    def started(self, job: Json, given: Sequence[Injection], gates: Gates) -> Json:
        """Return the Job with its injections. The pods of an elastic Job are gated."""
        job = super().started(job, given, gates)
        return _gated(job) if elastic(job, gates) else _ungated(job)

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        job = super().injected(job, slot, added, elastic=elastic)
        return job | {"spec": child(job, "spec") | _sized(job, added.count)}

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Suspend the Job and restore its pod template.

        A template can be changed only while the Job is suspended and has no start time, so this
        takes three writes. The annotation set by the first makes the next pass continue if this one
        is interrupted.
        """
        key, announced = key_of(job), annotation(job, STOPPING) == "true"
        busy = bool(child(job, "status").get("active"))
        effects: list[Effect] = []
        begins = not announced and not self.suspended(job)
        if not self.suspended(job):
            stopping = _marked(self.suspend(job))
            effects += self.write(job, stopping)
            job = stopping
        if child(job, "status").get("startTime"):
            version = child(job, "metadata").get("resourceVersion", "")
            cleared = {"startTime": None}
            effects.append(
                StatusPatch(key=key, resource_version=version, status=cleared, kind=self.name)
            )
        if announced and busy:
            # An earlier pass tried to restore the template, and the API server rejected it:
            # Kubernetes 1.36 and later do so while a Job has active pods.
            return Stop(effects=tuple(effects), complete=False)
        restored = _unmarked(self.restored(job, pod_sets))
        effects += self.write(job, restored, may_be_rejected=busy)
        return Stop(effects=tuple(effects), begins=begins)

    def template_restored(self, job: Json, slot: Template, pod_set: Json) -> Json:
        """Restore the template, except for the labels of the Job controller, and the size."""
        own = {
            key: value
            for key, value in child(job, *_TEMPLATE, "metadata", "labels").items()
            if key in _KEPT
        }
        labelled = put(
            pod_set,
            ("template", "metadata", "labels"),
            child(pod_set, "template", "metadata", "labels") | own,
        )
        job = super().template_restored(job, slot, labelled if own else pod_set)
        size = _sized(job, integer(pod_set.get("count")))
        return job | {"spec": child(job, "spec") | size}

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        return _gated(job) if elastic(job, gates) else job

    def faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool, default_queue: bool
    ) -> Iterator[FieldError]:
        yield from job_faults(job, old, gates, default_queue=default_queue)


def _marked(job: Json) -> Json:
    """Return the Job with the mark that its template is not restored yet."""
    return put(job, ("metadata", "annotations", STOPPING), "true")


def _unmarked(job: Json) -> Json:
    annotations = dict(child(job, "metadata", "annotations"))
    if annotations.pop(STOPPING, None) is None:
        return job
    return put(job, ("metadata", "annotations"), annotations)


def _sized(job: Json, count: int | None) -> Json:
    """Return the size of a Job with partial admission; empty for any other."""
    if whole(annotation(job, MIN_PARALLELISM) or "") is None or count is None:
        return {}
    equal = truth(annotation(job, EQUAL_COMPLETIONS) or "")
    return {"parallelism": count} | ({"completions": count} if equal else {})


def _gated(job: Json) -> Json:
    """Return the Job with the scheduling gate that holds its pods until its slices are admitted."""
    spec = child(job, *_TEMPLATE, "spec")
    gates = elements(spec.get("schedulingGates"))
    if any(mapping(each).get("name") == ELASTIC_JOB for each in gates):
        return job
    return put(job, (*_TEMPLATE, "spec", "schedulingGates"), [*gates, {"name": ELASTIC_JOB}])


def _ungated(job: Json) -> Json:
    """Return the Job without that gate, which nothing would remove from its pods."""
    spec = child(job, *_TEMPLATE, "spec")
    gates = elements(spec.get("schedulingGates"))
    left = [each for each in gates if mapping(each).get("name") != ELASTIC_JOB]
    if len(left) == len(gates):
        return job
    rest = {name: value for name, value in spec.items() if name != "schedulingGates"}
    return put(job, (*_TEMPLATE, "spec"), rest | ({"schedulingGates": left} if left else {}))
