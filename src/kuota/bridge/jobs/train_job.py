# SPDX-License-Identifier: Apache-2.0
"""The TrainJob of the Kubeflow trainer, whose pods are defined by a training runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS, GroupVersionKind
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.api.rules.metadata import PREFIX
from kuota.api.rules.report import child, elements, mapping, text
from kuota.api.workload import ReclaimablePod

from ..effects import Effect
from .ancestor import GroupKind, Lookup, namespace_of
from .dispatch import Dispatch
from .dispatch_kinds import TrainJobDispatch
from .fields import put
from .job_conditions import end_by_condition, total
from .job_set import JobSet, max_restarts, replicas, replicated_jobs, succeeded_pods
from .kind import End, PodSetsUnknown, ReferencedKind, Stop
from .template_kind import Template, TemplateKind
from .train_job_runtime import rendered

MANAGER = f"{PREFIX}manager"
"""The manager of the patch of the runtime that has the admission."""

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"
_CLUSTER_RUNTIME = GroupVersionKind(_GROUP, _VERSION, "ClusterTrainingRuntime")
_RUNTIME = GroupVersionKind(_GROUP, _VERSION, "TrainingRuntime")
_RESOLVED = "runtime"
"""The field of a resolved job with the spec of its runtime."""
_JOBS = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_JOB_SET = JobSet()


class TrainJob(TemplateKind):
    """A TrainJob. An admission is a patch of its runtime, so it has no templates to restore."""

    framework = "trainer.kubeflow.org/trainjob"
    ranked = True
    prebuilt = True
    described_pod_sets = "those of the JobSet that its runtime defines"
    gvk = FRAMEWORKS[framework]
    managed_by = ("spec", "managedBy")
    native_manager = "trainer.kubeflow.org/trainjob-controller"
    referred = (ReferencedKind(_CLUSTER_RUNTIME, namespaced=False), ReferencedKind(_RUNTIME))

    def dispatch(self) -> Dispatch | None:
        return TrainJobDispatch(self.gvk, MANAGER)

    def references(self, job: Json) -> Sequence[tuple[GroupKind, Key]]:
        ref = child(job, "spec", "runtimeRef")
        named = text(ref.get("apiGroup")) or _GROUP, text(ref.get("kind")) or _CLUSTER_RUNTIME.kind
        return [
            (kind.group_kind, Key(namespace_of(job) if kind.namespaced else "", name))
            for kind in self.referred
            if kind.group_kind == named and (name := text(ref.get("name")))
        ]

    def resolved(self, job: Json, look_up: Lookup) -> Json:
        found = [look_up(kind, key) for kind, key in self.references(job)]
        return job | {_RESOLVED: child(found[0], "spec") if found and found[0] else None}

    def templates(self, job: Json) -> Sequence[Template]:
        """Return the templates of its JobSet. Their paths lead into the JobSet."""
        return [
            msgspec.structs.replace(each, field=f"job[{each.name}]")
            for each in _JOB_SET.templates(self._job_set(job))
        ]

    def pod_template(self, job: Json, template: Template) -> Json:
        return _JOB_SET.pod_template(self._job_set(job), template)

    def _job_set(self, job: Json, *, with_framework: bool = True) -> Json:
        """Return the JobSet of a resolved job. Raises PodSetsUnknown."""
        runtime = job.get(_RESOLVED)
        if not isinstance(runtime, dict):
            name = text(child(job, "spec", "runtimeRef").get("name"))
            raise PodSetsUnknown(f'training runtime "{name}" not found', "spec.runtimeRef")
        return rendered(job, runtime, _patches(job), with_framework=with_framework)

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        """Return the pod sets. A suspended job may have its last admission, which is ignored."""
        current = _unpatched(job) if self.suspended(job) else job
        return _JOB_SET.pod_sets(self._job_set(current), gates)

    def earlier_pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        """Return the pod sets without the variables and the port of the training framework."""
        current = _unpatched(job) if self.suspended(job) else job
        return _JOB_SET.pod_sets(self._job_set(current, with_framework=False), gates)

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        """Write the admission, then resume: the trainer rejects patches of a running job."""
        wanted = len(self.templates(job))
        if len(given) != wanted:
            raise MergeConflict(
                f"this TrainJob has {wanted} pod sets; the admission has {len(given)}"
            )
        admitted = _admitted(job, [_patch_of(each) for each in given])
        return [*self.write(job, admitted), *self.write(admitted, _resumed(admitted))]

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Suspend the job and, when its pods are gone, remove the admission."""
        begins, suspended = not self.suspended(job), self.suspend(job)
        effects = self.write(job, suspended)
        if self.active(job):
            return Stop(effects=tuple(effects), begins=begins, complete=False)
        effects += self.write(suspended, _unpatched(suspended))
        return Stop(effects=tuple(effects), begins=begins)

    def end(self, job: Json) -> End | None:
        return end_by_condition(job, succeeded="Complete")

    def active(self, job: Json) -> bool:
        return total(_statuses(job), "active") > 0

    def pods_ready(self, job: Json) -> bool:
        try:
            wanted = sum(map(replicas, replicated_jobs(self._job_set(job))))
        except PodSetsUnknown:
            return False
        return total(_statuses(job), "ready", "succeeded") == wanted

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        """Return the pods of Jobs that have succeeded.

        With `exact`, there are none if its JobSet can be restarted: the status of a TrainJob does
        not tell how many restarts are left.
        """
        try:
            job_set = self._job_set(job)
        except PodSetsUnknown:
            return []
        if exact and max_restarts(job_set) > 0:
            return []
        return succeeded_pods(job_set, _statuses(job))

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        """Return the job with an empty patch for the admission, managed or not.

        The trainer rejects new patches of a job that has run.
        """
        patch = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
        return put(job, ("spec", "runtimePatches"), [*_patches(job), patch])

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterator[FieldError]:
        fix = "correct the annotations in spec.runtimePatches or in the training runtime"
        for fault in self.topology_faults(job, gates):
            yield msgspec.structs.replace(fault, fix=fault.fix or fix)


def _statuses(job: Json) -> list[object]:
    return elements(child(job, "status").get("jobsStatus"))


def _patches(job: Json) -> list[Json]:
    return [mapping(each) for each in elements(child(job, "spec").get("runtimePatches"))]


def _patch_of(added: Injection) -> Json:
    """Return the patch of one replicated Job."""
    given = msgspec.to_builtins(added)
    metadata = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    spec = {key: given[key] for key in fields if given.get(key)}
    template = {"metadata": metadata, "spec": spec}
    return {"name": added.name, "template": {"spec": {"template": template}}}


def _admitted(job: Json, jobs: list[Json]) -> Json:
    """Return the job with these patches of its replicated Jobs. Raises PodSetsUnknown."""
    for index, each in enumerate(_patches(job)):
        if each.get("manager") == MANAGER:
            return put(job, ("spec", "runtimePatches", index, *_JOBS), jobs)
    message = f"spec.runtimePatches has no entry of the manager {MANAGER}; create the job again"
    raise PodSetsUnknown(message, "spec.runtimePatches")


def _unpatched(job: Json) -> Json:
    """Return the job without its admission."""
    for index, each in enumerate(_patches(job)):
        if each.get("manager") == MANAGER and child(each, *_JOBS[:-1]).get(_JOBS[-1]):
            path = ("spec", "runtimePatches", index, *_JOBS[:-1])
            spec = child(each, *_JOBS[:-1])
            return put(job, path, {key: spec[key] for key in spec if key != _JOBS[-1]})
    return job


def _resumed(job: Json) -> Json:
    return put(job, ("spec", "suspend"), False)
