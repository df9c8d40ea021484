# SPDX-License-Identifier: Apache-2.0
"""Attempts to run work without a queue, and work that must remain possible."""

from __future__ import annotations

from typing import NamedTuple

from kuota.api.base import Json
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.kube.resources import CRON_JOBS, JOBS, PODS, Resource

MANAGED = "team"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
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


def _owner(kind: str) -> Json:
    made = {"apiVersion": "batch/v1", "kind": kind, "name": "x", "uid": "1", "controller": True}
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


def _deployment() -> Json:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "a", "namespace": MANAGED}, "spec": spec}


DENIED = (
    Attempt("a Job without a queue", JOBS, _job()),
    Attempt("a Job with an empty queue name", JOBS, _job(labels={QUEUE_NAME: ""})),
    Attempt("a Job with an invented owner", JOBS, _job(**_owner("Job"))),
    Attempt("a Job of an account of the namespace", JOBS, _job(**_owner("Job")), _OWN_ACCOUNT),
    Attempt("a Job of a CronJob", JOBS, _job(**_owner("CronJob")), _CONTROLLER),
    Attempt("a CronJob whose Jobs have no queue", CRON_JOBS, _cron_job({})),
    Attempt("a Pod", PODS, _pod()),
    Attempt("a Pod with a queue name", PODS, _pod(labels=_QUEUE)),
    Attempt("a Pod with an invented owner", PODS, _pod(**_owner("Job"))),
    Attempt("a Deployment", DEPLOYMENTS, _deployment()),
)
ALLOWED = (
    Attempt("a Job with a queue", JOBS, _job(labels=_QUEUE)),
    Attempt("a CronJob whose Jobs have a queue", CRON_JOBS, _cron_job(_QUEUE)),
    Attempt("a Job in a namespace that is not managed", JOBS, _job("kueue-system")),
    Attempt("a Pod that a controller creates", PODS, _pod(**_owner("Job")), _CONTROLLER),
    Attempt("a Job of an admin", JOBS, _job(), "root", ("system:masters",)),
)
