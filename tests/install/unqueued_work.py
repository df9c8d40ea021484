# SPDX-License-Identifier: Apache-2.0
"""Attempts to run work without a queue, and work that must remain possible."""

from __future__ import annotations

from typing import NamedTuple

from kuota.api.base import Json
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.kube.resources import CRON_JOBS, JOBS, PODS, Resource

MANAGED = "team"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
_QUEUE = {QUEUE_NAME: "main"}
_POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}
_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
_OWN_ACCOUNT = f"system:serviceaccount:{MANAGED}:default"


class Attempt(NamedTuple):
    """The creation of an object by a user."""

    name: str
    resource: Resource
    object: Json
    user: str = "ann"
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _owner(kind: str, api_version: str = "batch/v1") -> Json:
    made = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "1", "controller": True}
    return {"ownerReferences": [made]}


def _job(namespace: str = MANAGED, labels: Json | None = None, **metadata: object) -> Json:
    meta = {"name": "a", "namespace": namespace, "labels": labels or {}, **metadata}
    return {"metadata": meta, "spec": {"template": {"spec": _POD}}}


def _cron_job(labels: Json) -> Json:
    template = {"metadata": {"labels": labels}, "spec": _job()["spec"]}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    return {"metadata": {"name": "a", "namespace": MANAGED, "labels": _QUEUE}, "spec": spec}


def _pod(**metadata: object) -> Json:
    return {"metadata": {"name": "a", "namespace": MANAGED, **metadata}, "spec": _POD}


def _deployment(**metadata: object) -> Json:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "a", "namespace": MANAGED, **metadata}, "spec": spec}


DENIED = (
    Attempt("a Job without a queue", JOBS, _job()),
    Attempt("a Job with an empty queue name", JOBS, _job(labels={QUEUE_NAME: ""})),
    Attempt("a Job with an invented owner", JOBS, _job(**_owner("Job"))),
    Attempt("a Job of an account of the namespace", JOBS, _job(**_owner("Job")), _OWN_ACCOUNT),
    Attempt("a Job of a CronJob", JOBS, _job(**_owner("CronJob")), _CONTROLLER),
    Attempt("a CronJob whose Jobs have no queue", CRON_JOBS, _cron_job({})),
    Attempt("a Pod", PODS, _pod()),
    Attempt("a Pod with an invented owner", PODS, _pod(**_owner("Job"))),
    Attempt("a Pod below a job", PODS, _pod(labels=_QUEUE, **_owner("Job"))),
    Attempt(
        "a Job below a job", JOBS, _job(labels=_QUEUE, **_owner("JobSet", "jobset.x-k8s.io/v1"))
    ),
    Attempt(
        "a Pod below a ReplicaSet", PODS, _pod(labels=_QUEUE, **_owner("ReplicaSet", "apps/v1"))
    ),
    Attempt("a Deployment", DEPLOYMENTS, _deployment()),
    Attempt("a DaemonSet with a queue name", DAEMON_SETS, _deployment(labels=_QUEUE)),
)
UNQUEUED_PODS = (
    Attempt("a Pod with a queue, without the integration", PODS, _pod(labels=_QUEUE)),
    Attempt("a Pod of nobody", PODS, _pod()),
)
"""Denied if only batch/v1 Jobs are queued."""
ALLOWED = (
    Attempt("a Job with a queue", JOBS, _job(labels=_QUEUE)),
    Attempt("a Pod with a queue", PODS, _pod(labels=_QUEUE)),
    Attempt("a Deployment with a queue", DEPLOYMENTS, _deployment(labels=_QUEUE)),
    Attempt("a Job of a workflow", JOBS, _job(labels=_QUEUE, **_owner("Workflow")), _OWN_ACCOUNT),
    Attempt("a CronJob whose Jobs have a queue", CRON_JOBS, _cron_job(_QUEUE)),
    Attempt("a Job in a namespace that is not managed", JOBS, _job("kueue-system")),
    Attempt("a Pod that a controller creates", PODS, _pod(**_owner("Job")), _CONTROLLER),
    Attempt("a Job of an admin", JOBS, _job(), "root", ("system:masters",)),
)
