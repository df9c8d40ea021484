# SPDX-License-Identifier: Apache-2.0
"""The Deployment: each of its Pods is queued on its own, with its queue and priority."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gates
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name
from kuota.api.rules.metadata import label
from kuota.api.rules.pod import MANAGED, SUSPENDING_PARENT
from kuota.api.rules.report import child, integer
from kuota.api.rules.serving import replicas

from .fields import put
from .kind import key_of
from .pod_parent import PodParent, marked

DEPLOYMENT = "deployment"


class Deployment(PodParent):
    """A Deployment. A change of its queue changes the template and so replaces its Pods."""

    framework = DEPLOYMENT
    described_pod_sets = "its pods are queued one by one"
    described_suspension = "scheduling gate of its pods"
    gvk = FRAMEWORKS[DEPLOYMENT]

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        if not managed:
            return job
        labels = {
            MANAGED: "true",
            QUEUE_NAME: queue_name(job),
            PRIORITY_CLASS: label(job, PRIORITY_CLASS) or "",
        }
        template = child(job, "spec", "template")
        annotations = {SUSPENDING_PARENT: DEPLOYMENT}
        return put(job, ("spec", "template"), marked(template, labels, annotations))

    def new_pods(self, obj: Json) -> list[Json]:
        key, template = key_of(obj), child(obj, "spec", "template")
        exist = integer(child(obj, "status").get("replicas")) or 0
        named = {"apiVersion": "v1", "kind": "Pod", "spec": child(template, "spec")}
        meta = child(template, "metadata") | {"namespace": key.namespace}
        return [
            named | {"metadata": meta | {"name": f"{key.name}-{at}"}}
            for at in range(exist, replicas(obj))
        ]
