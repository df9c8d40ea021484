# SPDX-License-Identifier: Apache-2.0
"""The jobs of Kubeflow's training operator: PyTorchJob, TFJob, XGBoostJob, PaddleJob and JAXJob."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.faults import FieldError, duplicate
from kuota.api.gates import Gates
from kuota.api.rules.report import child, integer, mapping, text

from .job_conditions import total, true_condition
from .kind import End
from .template_kind import Template, TemplateKind

_RANKS = {"podIndexLabel": "training.kubeflow.org/replica-index"}


class TrainingJob(TemplateKind):
    """A job with one pod set for each type of replica.

    The operator ignores the case of the names of replica types, so it is ignored here, too.
    """

    ranked = True
    prebuilt = True

    replica_specs: ClassVar[str]
    """The field of the spec that has the replicas by type."""
    replica_types: ClassVar[tuple[str, ...]]
    """The types in the order of the pod sets."""
    suspend_path = ("spec", "runPolicy", "suspend")
    managed_by = ("spec", "runPolicy", "managedBy")
    native_manager = "kubeflow.org/training-operator"

    def templates(self, job: Json) -> Sequence[Template]:
        specs = self._specs(job)
        return [self._template(kind, mapping(specs[kind])) for kind in self._keys(job)]

    def _template(self, kind: str, spec: Json) -> Template:
        replicas = integer(spec.get("replicas"))
        return Template(
            name=kind.lower(),
            count=1 if replicas is None else replicas,
            path=("spec", self.replica_specs, kind, "template"),
            ranks=_RANKS,
            field=f"spec.{self.replica_specs}[{kind}].template.metadata",
        )

    def _specs(self, job: Json) -> Json:
        return child(job, "spec", self.replica_specs)

    def _keys(self, job: Json) -> Iterator[str]:
        """Yield the keys of the replica types that the job has, in order."""
        specs = self._specs(job)
        given = [key for key, spec in specs.items() if isinstance(spec, dict)]
        for kind in self.replica_types:
            yield from (key for key in given if key.lower() == kind.lower())

    def pod_priority_class(self, job: Json) -> str:
        policy = child(job, "spec", "runPolicy", "schedulingPolicy")
        return text(policy.get("priorityClass")) or super().pod_priority_class(job)

    def end(self, job: Json) -> End | None:
        over = true_condition(job, "Succeeded", "Failed")
        if over is None:
            return None
        return End(success=over.get("type") == "Succeeded", message=text(over.get("message")))

    def active(self, job: Json) -> bool:
        return total(child(job, "status", "replicaStatuses").values(), "active") > 0

    def pods_ready(self, job: Json) -> bool:
        return true_condition(job, "Running") is not None

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        return chain(self._duplicates(job), super().own_faults(job, old, gates, managed=managed))

    def _duplicates(self, job: Json) -> Iterator[FieldError]:
        seen: dict[str, str] = {}
        for key in self._keys(job):
            first = seen.setdefault(key.lower(), key)
            if first != key:
                path = f"spec.{self.replica_specs}[{key}]"
                yield duplicate(path, key, f"is the same replica type as {first}", "remove one")


class PyTorchJob(TrainingJob):
    framework = "kubeflow.org/pytorchjob"
    described_pod_sets = "`master`, `worker`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "pytorchReplicaSpecs"
    replica_types = ("Master", "Worker")


class TFJob(TrainingJob):
    framework = "kubeflow.org/tfjob"
    described_pod_sets = "`chief`, `master`, `ps`, `worker`, `evaluator`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "tfReplicaSpecs"
    replica_types = ("Chief", "Master", "PS", "Worker", "Evaluator")


class XGBoostJob(TrainingJob):
    framework = "kubeflow.org/xgboostjob"
    described_pod_sets = "`master`, `worker`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "xgbReplicaSpecs"
    replica_types = ("Master", "Worker")


class PaddleJob(TrainingJob):
    framework = "kubeflow.org/paddlejob"
    described_pod_sets = "`master`, `worker`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "paddleReplicaSpecs"
    replica_types = ("Master", "Worker")


class JAXJob(TrainingJob):
    framework = "kubeflow.org/jaxjob"
    prebuilt = False
    described_pod_sets = "`worker`"
    gvk = FRAMEWORKS[framework]
    replica_specs = "jaxReplicaSpecs"
    replica_types = ("Worker",)
