# SPDX-License-Identifier: Apache-2.0
"""The JobSet: several Jobs that are queued together."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.rules.job import pod_count
from kuota.api.rules.report import child, elements, integer, mapping, text
from kuota.api.workload import ReclaimablePod

from .job_conditions import end_by_condition, total
from .kind import End
from .template_kind import Template, TemplateKind

_FRAMEWORK = "jobset.x-k8s.io/jobset"
_RANKS = {
    "podIndexLabel": "batch.kubernetes.io/job-completion-index",
    "subGroupIndexLabel": "jobset.sigs.k8s.io/job-index",
}


class JobSet(TemplateKind):
    """A JobSet. Each replicated Job is a pod set with the pods of all its replicas."""

    framework = _FRAMEWORK
    ranked = True
    prebuilt = True
    described_pod_sets = "one for each replicated Job"
    gvk = FRAMEWORKS[_FRAMEWORK]
    managed_by = ("spec", "managedBy")
    native_manager = "jobset.sigs.k8s.io/jobset-controller"
    validates_groups = True

    def templates(self, job: Json) -> Sequence[Template]:
        return [
            Template(
                name=text(each.get("name")).lower(),
                count=replicas(each) * pods_per_replica(each),
                path=("spec", "replicatedJobs", index, "template", "spec", "template"),
                ranks=_RANKS | {"subGroupCount": replicas(each)},
            )
            for index, each in enumerate(replicated_jobs(job))
        ]

    def end(self, job: Json) -> End | None:
        return end_by_condition(job, succeeded="Completed")

    def active(self, job: Json) -> bool:
        return total(_statuses(job), "active") > 0

    def pods_ready(self, job: Json) -> bool:
        wanted = sum(map(replicas, replicated_jobs(job)))
        return total(_statuses(job), "ready", "succeeded") == wanted

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        """Return the pods of Jobs that have succeeded.

        With `exact`, there are none while the JobSet may be restarted, which repeats all its Jobs.
        """
        restarted = integer(child(job, "status").get("restarts")) or 0
        if exact and max_restarts(job) > restarted:
            return []
        return succeeded_pods(job, _statuses(job))


def max_restarts(job_set: Json) -> int:
    """Return how often a JobSet is restarted at most."""
    return integer(child(job_set, "spec", "failurePolicy").get("maxRestarts")) or 0


def succeeded_pods(job_set: Json, statuses: Sequence[object]) -> list[ReclaimablePod]:
    """Return the pods of replicated Jobs that have succeeded, by the statuses of these Jobs."""
    done = {
        text(mapping(each).get("name")): integer(mapping(each).get("succeeded")) or 0
        for each in statuses
    }
    return [
        ReclaimablePod(name=name.lower(), count=done[name] * pods_per_replica(each))
        for each in replicated_jobs(job_set)
        if 0 < done.get(name := text(each.get("name")), 0) <= replicas(each)
    ]


def replicated_jobs(job_set: Json) -> list[Json]:
    return [mapping(each) for each in elements(child(job_set, "spec").get("replicatedJobs"))]


def replicas(replicated: Json) -> int:
    found = integer(replicated.get("replicas"))
    return 1 if found is None else found


def pods_per_replica(replicated: Json) -> int:
    return pod_count(mapping(replicated.get("template")))


def _statuses(job: Json) -> list[object]:
    return elements(child(job, "status").get("replicatedJobsStatus"))
