# SPDX-License-Identifier: Apache-2.0
"""The objects of the story."""

from __future__ import annotations

from typing import Any

from control.objects import flavor
from injection.check import SWITCH
from injection.installation import ELASTIC, GPU
from kuota.api.base import Json
from kuota.kube.resources import Resource

STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
MPI_JOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
SWITCHED = {"admissionChecks": [{"name": "switch"}]}
CONCURRENT = {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}


TOPOLOGY = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}]},
}
"""No flavor uses it; its levels are compared with the labels of nodes."""

HOSTS = TOPOLOGY | {
    "metadata": {"name": "hosts"},
    "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]},
}
PLACED = flavor("placed", topologyName="hosts", nodeLabels={"kubernetes.io/os": "linux"})
"""Its jobs are placed on nodes. The first one gets a node that fails at once."""


def queue(name: str, gpus: int, **spec: Any) -> Json:
    flavors = spec.pop("flavors", ("default",))
    quotas = [{"name": GPU, "nominalQuota": gpus}]
    offered = [{"name": each, "resources": quotas} for each in flavors]
    group = {"coveredResources": [GPU], "flavors": offered}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def pod(name: str, length_s: float, gpus: int = 0, **spec: Any) -> Json:
    limits = {GPU: str(gpus)} if gpus else {}
    only = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", f"{length_s:g}"],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "resources": {"limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [only], "restartPolicy": "Never"} | spec,
    }


def job(
    name: str, queue: str, gpus: int, length_s: float, *, high: bool = False, **spec: Any
) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    labels |= {"kueue.x-k8s.io/priority-class": "high"} if high else {}
    template = {"spec": pod(name, length_s, gpus)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"backoffLimit": 20, "template": template, **spec},
    }


def cron() -> Json:
    every_minute = job("tick", "", 0, 2)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "team"},
        "spec": {
            "schedule": "* * * * *",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": every_minute},
        },
    }


def member(name: str) -> Json:
    """A Pod of the group `team`, which ends."""
    made = pod(name, 15, 1)
    labels = {"kueue.x-k8s.io/queue-name": "d", "kueue.x-k8s.io/pod-group-name": "team"}
    notes = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    made["metadata"] |= {"labels": labels, "annotations": notes}
    return made


def serving(resource: Resource, name: str) -> Json:
    """A Deployment or StatefulSet, which never ends."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, 1e6, 1)["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    queue = "e" if resource == STATEFUL_SETS else "d"
    meta = {"name": name, "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    spec |= {"serviceName": name} if resource == STATEFUL_SETS else {"revisionHistoryLimit": 0}
    return {"apiVersion": "apps/v1", "kind": resource.kind, "metadata": meta, "spec": spec}


def job_set(name: str, queue: str, length_s: float, **spec: Any) -> Json:
    template = {"spec": job("", "", 1, length_s)["spec"]}
    jobs = {"name": "workers", "replicas": 1, "template": template}
    meta = {"name": name, "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    named = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, "metadata": meta}
    return named | {"spec": {"replicatedJobs": [jobs], **spec}}


def switch() -> Json:
    meta = {"name": SWITCH.name, "namespace": SWITCH.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"on": "yes"}}


def placed() -> Json:
    made = job("placed", "g", 1, 10)
    required = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    made["spec"]["template"]["metadata"] = {"annotations": required}
    return made


def mpi_job() -> Json:
    """A job of a kind that no informer watches, because its integration is disabled."""
    named = {"apiVersion": MPI_JOBS.api_version, "kind": MPI_JOBS.kind}
    return named | {"metadata": {"name": "mpi", "namespace": "team"}}


def owned(owner: Json) -> Json:
    """A Job of a controller whose kind is not queued."""
    made = job("owned", "d", 1, 5)
    reference = {"apiVersion": MPI_JOBS.api_version, "kind": MPI_JOBS.kind, "controller": True}
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    made["metadata"]["ownerReferences"] = [reference | named]
    return made


def elastic() -> Json:
    made = job(ELASTIC, "d", 1, 40, parallelism=1, completions=2)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return made
