# SPDX-License-Identifier: Apache-2.0
"""Lists the job integrations that a Configuration can name, and their kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

BATCH_JOB = "batch/job"
POD = "pod"
DEPLOYMENT = "deployment"
SPARK = "sparkoperator.k8s.io/sparkapplication"


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def plural(self) -> str:
        """The name of the resource, by the rule of Kubernetes' code generators."""
        word = self.kind.lower()
        if word.endswith(("s", "x", "z", "ch", "sh")):
            return f"{word}es"
        if word.endswith("y") and word[-2:-1] not in "aeiou":
            return f"{word[:-1]}ies"
        return f"{word}s"

    @classmethod
    def parse(cls, text: str) -> GroupVersionKind | None:
        """Parse `Kind.version.group`, such as `Job.v1.batch`. Return None if the text is invalid.

        As in Kubernetes, only the two dots are required: a part may be empty.
        """
        parts = text.split(".", 2)
        return cls(parts[2], parts[1], parts[0]) if len(parts) == 3 else None


FRAMEWORKS = {
    BATCH_JOB: GroupVersionKind("batch", "v1", "Job"),
    "jobset.x-k8s.io/jobset": GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    "kubeflow.org/mpijob": GroupVersionKind("kubeflow.org", "v2beta1", "MPIJob"),
    "kubeflow.org/tfjob": GroupVersionKind("kubeflow.org", "v1", "TFJob"),
    "kubeflow.org/pytorchjob": GroupVersionKind("kubeflow.org", "v1", "PyTorchJob"),
    "kubeflow.org/xgboostjob": GroupVersionKind("kubeflow.org", "v1", "XGBoostJob"),
    "kubeflow.org/paddlejob": GroupVersionKind("kubeflow.org", "v1", "PaddleJob"),
    "kubeflow.org/jaxjob": GroupVersionKind("kubeflow.org", "v1", "JAXJob"),
    "trainer.kubeflow.org/trainjob": GroupVersionKind(
        "trainer.kubeflow.org", "v1alpha1", "TrainJob"
    ),
    "ray.io/raycluster": GroupVersionKind("ray.io", "v1", "RayCluster"),
    "ray.io/rayjob": GroupVersionKind("ray.io", "v1", "RayJob"),
    "ray.io/rayservice": GroupVersionKind("ray.io", "v1", "RayService"),
    "workload.codeflare.dev/appwrapper": GroupVersionKind(
        "workload.codeflare.dev", "v1beta2", "AppWrapper"
    ),
    SPARK: GroupVersionKind("sparkoperator.k8s.io", "v1beta2", "SparkApplication"),
    POD: GroupVersionKind("", "v1", "Pod"),
    DEPLOYMENT: GroupVersionKind("apps", "v1", "Deployment"),
    "statefulset": GroupVersionKind("apps", "v1", "StatefulSet"),
    "leaderworkerset.x-k8s.io/leaderworkerset": GroupVersionKind(
        "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"
    ),
}

_NOT_DISPATCHED = frozenset({DEPLOYMENT, SPARK})


def dispatched(frameworks: Iterable[str]) -> set[GroupVersionKind]:
    """Return the kinds of these frameworks that MultiKueue dispatches by default."""
    names = FRAMEWORKS.keys() & set(frameworks) - _NOT_DISPATCHED
    return {FRAMEWORKS[name] for name in names}
