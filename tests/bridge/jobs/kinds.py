# SPDX-License-Identifier: Apache-2.0
"""One job of each kind, for tests that concern all of them."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import BUILT_IN, JOB
from kuota.bridge.jobs.template_kind import TemplateKind

BY_NAME: dict[str, JobKind] = {
    kind.gvk.kind: kind for kind in BUILT_IN if isinstance(kind, TemplateKind) and kind is not JOB
}


def template(cpu: str = "1", **annotations: str) -> Json:
    """A pod template whose container requests this many CPUs."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def replicated(name: str, pods: int, *, replicas: int = 1, **annotations: str) -> Json:
    """A replicated Job of a JobSet."""
    spec = {"parallelism": pods, "completions": pods, "template": template(**annotations)}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def job(kind: str, spec: Json, **status: Any) -> Json:
    """A job of a kind in the queue `main`."""
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    return {
        "apiVersion": BY_NAME[kind].api_version,
        "kind": kind,
        "metadata": {"name": "j", "namespace": "ml", "uid": "u", "labels": labels},
        "spec": spec,
        "status": status,
    }


def training(kind: str, field: str, **replicas: int) -> Json:
    """A job of the training operator with this many replicas of each type."""
    specs = {key: {"replicas": count, "template": template()} for key, count in replicas.items()}
    return job(kind, {field: specs, "runPolicy": {"suspend": True}})


JOB_SET_SPEC: Json = {
    "suspend": True,
    "replicatedJobs": [replicated("leader", 1), replicated("workers", 2, replicas=3)],
}
RAY_CLUSTER: Json = {
    "headGroupSpec": {"template": template()},
    "workerGroupSpecs": [{"groupName": "workers", "replicas": 3, "template": template()}],
}
EXAMPLES: dict[str, Json] = {
    "RayCluster": job("RayCluster", RAY_CLUSTER | {"suspend": True}, state="ready"),
    "RayJob": job(
        "RayJob",
        {
            "suspend": True,
            "shutdownAfterJobFinishes": True,
            "submissionMode": "HTTPMode",
            "rayClusterSpec": RAY_CLUSTER,
        },
        jobDeploymentStatus="Running",
    ),
    "RayService": job(
        "RayService",
        {"rayClusterConfig": RAY_CLUSTER | {"suspend": True}},
        conditions=[{"type": "Ready", "status": "True"}],
    ),
    "JobSet": job("JobSet", JOB_SET_SPEC, replicatedJobsStatus=[{"name": "leader", "active": 1}]),
    "PyTorchJob": training("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=3),
    "TFJob": training("TFJob", "tfReplicaSpecs", Chief=1, PS=2, Worker=3),
    "XGBoostJob": training("XGBoostJob", "xgbReplicaSpecs", Master=1, Worker=3),
    "PaddleJob": training("PaddleJob", "paddleReplicaSpecs", Master=1, Worker=3),
    "JAXJob": training("JAXJob", "jaxReplicaSpecs", Worker=3),
    "MPIJob": training("MPIJob", "mpiReplicaSpecs", Launcher=1, Worker=3),
    "TrainJob": job(
        "TrainJob",
        {
            "suspend": True,
            "runtimeRef": {"name": "torch"},
            "trainer": {"numNodes": 4, "resourcesPerNode": {"requests": {"cpu": "2"}}},
            "runtimePatches": [
                {
                    "manager": "kueue.x-k8s.io/manager",
                    "trainingRuntimeSpec": {"template": {"spec": {}}},
                }
            ],
        },
        jobsStatus=[{"name": "node", "active": 0}],
    ),
    "AppWrapper": job(
        "AppWrapper",
        {
            "suspend": True,
            "components": [
                {
                    "template": {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "spec": {"parallelism": 2, "template": template()},
                    }
                },
                {
                    "podSets": [{"replicas": 3, "path": "template.spec.groups[0].template"}],
                    "template": {"kind": "Custom", "spec": {"groups": [{"template": template()}]}},
                },
            ],
        },
    ),
    "SparkApplication": job(
        "SparkApplication",
        {
            "suspend": True,
            "mode": "cluster",
            "driver": {"coreRequest": "1"},
            "executor": {"coreRequest": "2", "instances": 3},
        },
    ),
}
RUNTIME: Json = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch"},
    "spec": {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {"containers": [{"name": "node", "image": "torch"}]}
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}
"""The runtime of the TrainJob."""
FIELDS = (
    "name",
    "namespace",
    "labels",
    "annotations",
    "suspend",
    "runPolicy",
    "schedulingPolicy",
    "priorityClass",
    "replicatedJobs",
    "replicas",
    "template",
    "spec",
    "metadata",
    "containers",
    "resources",
    "parallelism",
    "completions",
    "tolerations",
    "nodeSelector",
    "schedulingGates",
    "pytorchReplicaSpecs",
    "tfReplicaSpecs",
    "xgbReplicaSpecs",
    "paddleReplicaSpecs",
    "jaxReplicaSpecs",
    "mpiReplicaSpecs",
    "runLauncherAsWorker",
    "Master",
    "worker",
    "Worker",
    "Launcher",
    "runtimeRef",
    "runtimePatches",
    "manager",
    "trainingRuntimeSpec",
    "trainer",
    "numNodes",
    "mlPolicy",
    "mpi",
    "components",
    "podSets",
    "podSetInfos",
    "path",
    "driver",
    "executor",
    "instances",
    "cores",
    "coreRequest",
    "memory",
    "gpu",
    "quantity",
    "volumes",
    "volumeMounts",
    "sidecars",
    "conditions",
    "type",
    "status",
    "replicaStatuses",
    "replicatedJobsStatus",
    "jobsStatus",
    "active",
    "succeeded",
    "applicationState",
    "state",
    "executorState",
    "failurePolicy",
    "maxRestarts",
    "dynamicAllocation",
)
"""Fields that some kind reads."""
