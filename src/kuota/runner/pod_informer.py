# SPDX-License-Identifier: Apache-2.0
"""The pod informer that all parts of a runner share. It keeps little of ended pods."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.core import is_terminated
from kuota.bridge.jobs.pod_gates import has_parent, managed
from kuota.kube.informer import Informer
from kuota.kube.lazy_informer import LazyInformer

from .job_pods import FAILURES, FINALIZER, INDEX, JOB_NAME, job_key

_META = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "ownerReferences",
)


def trimmed_pod(pod: Json) -> Json:
    """The pod without unused fields; almost nothing of it once it has ended and is counted."""
    meta, status = pod["metadata"], pod.get("status") or {}
    meta.pop("managedFields", None)
    if not is_over(pod):
        return pod
    kept = {name: meta[name] for name in _META if name in meta}
    for field, names in (("annotations", (INDEX, FAILURES)), ("labels", (JOB_NAME,))):
        some = {name: value for name, value in (meta.get(field) or {}).items() if name in names}
        if some:
            kept[field] = some
    slim: Json = {"metadata": kept, "status": {"phase": status["phase"]}}
    ends = [_end(each) for each in status.get("containerStatuses") or ()]
    if ends:
        slim["status"]["containerStatuses"] = ends
    if status["phase"] == "Failed":  # The pod failure policy of its Job may depend on them.
        slim["status"]["conditions"] = [_few(each) for each in status.get("conditions") or ()]
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        slim["spec"] = {"nodeName": node}
    return slim


def is_over(pod: Json) -> bool:
    """Whether the pod has ended and is counted."""
    return is_terminated(pod) and FINALIZER not in (pod["metadata"].get("finalizers") or ())


def _end(status: Json) -> Json:
    ended = (status.get("state") or {}).get("terminated") or {}
    few = {name: ended[name] for name in ("exitCode", "finishedAt") if name in ended}
    return {"name": status.get("name") or "", "state": {"terminated": few}}


def _few(condition: Json) -> Json:
    return {name: condition[name] for name in ("type", "status") if name in condition}


def whole_pod(pod: Json) -> Json:
    """Return what a runner and the Pod integration need: queued pods, and live ones, are whole."""
    pod["metadata"].pop("managedFields", None)
    return pod if managed(pod) or has_parent(pod) else trimmed_pod(pod)


def shared_informer(pods: LazyInformer[Json]) -> Informer[Json]:
    """Let an informer of pods, which others read and run as well, keep what a runner needs."""
    pods.keep(whole_pod, lambda pod: False)
    pods.add_index(JOB, _job)
    pods.need()
    return pods


JOB = "job"
"""The index of pods by `str` of the key of their Job."""


def _job(pod: Json) -> Iterator[str]:
    job = job_key(pod)
    if job is not None:
        yield str(job)
