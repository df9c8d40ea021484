# SPDX-License-Identifier: Apache-2.0
"""One job of each kind for stories of its life, and how its operator would report that.

Every job has two pods of two CPUs each and 100 MiB of memory. Manifests contain what the webhooks
of their operators would set.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kuota.api.base import Json

Path = tuple[str | int, ...]
AT = "2026-01-02T03:04:05Z"
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


class JobStory(msgspec.Struct, frozen=True, kw_only=True):
    """A job, where it has its switch and the node selector of its pods, and its statuses.

    `companions` are objects that it refers to. Without `finished`, the kind never finishes.
    """

    framework: str
    api_version: str
    kind: str
    spec: Json
    selector: Path
    suspend: Path = ("spec", "suspend")
    running: Json = {}
    stopped: Json = {}
    finished: Json | None = None
    companions: tuple[Json, ...] = ()

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    def manifest(self, name: str) -> Json:
        meta = {"name": name, "namespace": "team", "labels": dict(QUEUE)}
        made = {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta}
        return made | {"spec": self.spec}

    def suspended(self, job: Json) -> bool:
        return bool(at(job, self.suspend))

    def node_selector(self, job: Json) -> Json:
        """What the flavor has added to the node selector of the job's pods."""
        return at(job, self.selector) or {}


def at(obj: Any, path: Path) -> Any:
    """The value at a path, or None."""
    for step in path:
        try:
            obj = obj[step]
        except (KeyError, IndexError, TypeError):
            return None
    return obj


def pods(container: str = "main") -> Json:
    """A pod template."""
    requests = {"cpu": "2", "memory": "50Mi"}
    main = {"name": container, "image": "i", "resources": {"requests": requests}}
    return {"spec": {"containers": [main], "restartPolicy": "Never"}}


def _condition(kind: str, status: str = "True", **more: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": "Told",
        "message": "told by the test",
        "lastTransitionTime": AT,
    } | more


def _replicated(active: int, name: str = "workers") -> Json:
    counts = {"ready": active, "active": active, "succeeded": 0, "failed": 0}
    return {"name": name, "suspended": 1 - active} | counts


def _training(framework: str, kind: str, field: str, container: str, **replicas: int) -> JobStory:
    """A job that one of Kubeflow's operators runs, by default with two workers."""
    counts = replicas or {"Worker": 2}
    specs = {
        role: {"replicas": count, "restartPolicy": "Never", "template": pods(container)}
        for role, count in counts.items()
    }

    def status(condition: str, counter: str, **more: Any) -> Json:
        found = {role: {counter: count} for role, count in counts.items()}
        told = [_condition(condition, lastUpdateTime=AT)]
        return {"conditions": told, "replicaStatuses": found} | more

    return JobStory(
        framework=framework,
        api_version="kubeflow.org/v1",
        kind=kind,
        spec={"runPolicy": {"suspend": True}, field: specs},
        suspend=("spec", "runPolicy", "suspend"),
        selector=("spec", field, "Worker", "template", "spec", "nodeSelector"),
        running=status("Running", "active"),
        stopped={
            "conditions": [_condition("Suspended", lastUpdateTime=AT)],
            "replicaStatuses": {role: {"active": 0} for role in counts},
        },
        finished=status("Succeeded", "succeeded", completionTime=AT),
    )


_JOB_SPEC: Json = {
    "parallelism": 2,
    "completions": 2,
    "completionMode": "Indexed",
    "backoffLimit": 0,
    "template": pods(),
}

JOB_SET = JobStory(
    framework="jobset.x-k8s.io/jobset",
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    spec={
        "suspend": True,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "replicatedJobs": [
            {
                "name": "workers",
                "groupName": "default",
                "replicas": 1,
                "template": {"spec": _JOB_SPEC},
            }
        ],
    },
    selector=("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "nodeSelector"),
    running={"replicatedJobsStatus": [_replicated(1)]},
    stopped={"replicatedJobsStatus": [_replicated(0)]},
    finished={"conditions": [_condition("Completed")], "terminalState": "Completed"},
)
PYTORCH_JOB = _training("kubeflow.org/pytorchjob", "PyTorchJob", "pytorchReplicaSpecs", "pytorch")
TF_JOB = _training("kubeflow.org/tfjob", "TFJob", "tfReplicaSpecs", "tensorflow")
XGBOOST_JOB = _training(
    "kubeflow.org/xgboostjob", "XGBoostJob", "xgbReplicaSpecs", "xgboost", Master=1, Worker=1
)
PADDLE_JOB = _training("kubeflow.org/paddlejob", "PaddleJob", "paddleReplicaSpecs", "paddle")
JAX_JOB = _training("kubeflow.org/jaxjob", "JAXJob", "jaxReplicaSpecs", "jax")
MPI_JOB = msgspec.structs.replace(
    _training("kubeflow.org/mpijob", "MPIJob", "mpiReplicaSpecs", "mpi"),
    api_version="kubeflow.org/v2beta1",
)
_RUNTIME: Json = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "runtime", "namespace": "team"},
    "spec": {
        "mlPolicy": {"numNodes": 2},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "replicas": 1,
                        "groupName": "default",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {"template": pods("node")},
                        },
                    }
                ]
            }
        },
    },
}
_PATCHED: Path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs", 0, "template")
TRAIN_JOB = JobStory(
    framework="trainer.kubeflow.org/trainjob",
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    spec={
        "suspend": True,
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "TrainingRuntime",
            "name": "runtime",
        },
        "runtimePatches": [
            {
                "manager": "kueue.x-k8s.io/manager",
                "trainingRuntimeSpec": {"template": {"spec": {}}},
            }
        ],
    },
    selector=("spec", "runtimePatches", 0, *_PATCHED, "spec", "template", "spec", "nodeSelector"),
    running={"jobsStatus": [_replicated(1, "node")]},
    stopped={"jobsStatus": [_replicated(0, "node")]},
    finished={"conditions": [_condition("Complete")]},
    companions=(_RUNTIME,),
)
APP_WRAPPER = JobStory(
    framework="workload.codeflare.dev/appwrapper",
    api_version="workload.codeflare.dev/v1beta2",
    kind="AppWrapper",
    spec={
        "suspend": True,
        "components": [
            {
                "template": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "wrapped"},
                    "spec": _JOB_SPEC,
                }
            }
        ],
    },
    selector=("spec", "components", 0, "podSetInfos", 0, "nodeSelector"),
    running={"phase": "Running", "conditions": [_condition("QuotaReserved")]},
    stopped={"phase": "Suspended", "conditions": [_condition("QuotaReserved", "False")]},
    finished={"phase": "Succeeded", "conditions": [_condition("QuotaReserved", "False")]},
)


def _role(name: str) -> Json:
    """The driver or the executor of a SparkApplication, with a template as an admission needs."""
    template = {"spec": {"containers": [{"name": f"spark-kubernetes-{name}"}]}}
    requests = {"cores": 2, "coreRequest": "2", "memory": "30m", "memoryOverhead": "20m"}
    return requests | {"template": template}


SPARK_APPLICATION = JobStory(
    framework="sparkoperator.k8s.io/sparkapplication",
    api_version="sparkoperator.k8s.io/v1beta2",
    kind="SparkApplication",
    spec={
        "suspend": True,
        "type": "Scala",
        "mode": "cluster",
        "sparkVersion": "4.0.0",
        "mainApplicationFile": "local:///main.jar",
        "driver": _role("driver"),
        "executor": _role("executor") | {"instances": 1},
    },
    selector=("spec", "executor", "nodeSelector"),
    running={"applicationState": {"state": "RUNNING"}, "driverInfo": {}},
    stopped={"applicationState": {"state": "SUSPENDED"}, "driverInfo": {}},
    finished={"applicationState": {"state": "COMPLETED"}, "driverInfo": {}},
)

_RAY_CLUSTER: Json = {
    "headGroupSpec": {"rayStartParams": {}, "template": pods("head")},
    "workerGroupSpecs": [
        {
            "groupName": "workers",
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 1,
            "numOfHosts": 1,
            "scaleStrategy": {},
            "rayStartParams": {},
            "template": pods("worker"),
        }
    ],
}
_RAY_WORKERS: Path = ("workerGroupSpecs", 0, "template", "spec", "nodeSelector")
RAY_CLUSTER = JobStory(
    framework="ray.io/raycluster",
    api_version="ray.io/v1",
    kind="RayCluster",
    spec=_RAY_CLUSTER | {"suspend": True},
    selector=("spec", *_RAY_WORKERS),
    running={"state": "ready"},
    stopped={"state": "suspended"},
)
RAY_JOB = JobStory(
    framework="ray.io/rayjob",
    api_version="ray.io/v1",
    kind="RayJob",
    spec={
        "suspend": True,
        "entrypoint": "true",
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": _RAY_CLUSTER,
    },
    selector=("spec", "rayClusterSpec", *_RAY_WORKERS),
    running={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
    stopped={"jobDeploymentStatus": "Suspended", "jobStatus": ""},
    finished={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
)
RAY_SERVICE = JobStory(
    framework="ray.io/rayservice",
    api_version="ray.io/v1",
    kind="RayService",
    spec={"rayClusterConfig": _RAY_CLUSTER | {"suspend": True}},
    suspend=("spec", "rayClusterConfig", "suspend"),
    selector=("spec", "rayClusterConfig", *_RAY_WORKERS),
    running={"conditions": [_condition("Ready")]},
    stopped={"conditions": [_condition("Ready", "False")]},
)

STORIES: dict[str, JobStory] = {
    each.framework: each
    for each in (
        JOB_SET,
        PYTORCH_JOB,
        TF_JOB,
        XGBOOST_JOB,
        PADDLE_JOB,
        JAX_JOB,
        MPI_JOB,
        TRAIN_JOB,
        APP_WRAPPER,
        SPARK_APPLICATION,
        RAY_CLUSTER,
        RAY_JOB,
        RAY_SERVICE,
    )
}
