# SPDX-License-Identifier: Apache-2.0
"""Defaults of Kubernetes' own kinds: what an object gets where its manifest does not say."""

from __future__ import annotations

from typing import Any

from kuota.api import quantity
from kuota.api.base import Json

from .columns import dig, listed, mapped

_POD: Json = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER: Json = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Json = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def fill_pod(pod: Json) -> None:
    """Fill in what a pod's manifest does not say. The object is changed."""
    spec = pod.setdefault("spec", {})
    fill_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _fill_requests(container)


def generate_pod(pod: Json) -> None:
    """Give a pod that is about to be created its account, and the status it begins with."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    pod["status"] = {"phase": "Pending", "qosClass": quality(spec)}


def fill_spec(spec: Json) -> None:
    """Fill in the spec of a pod, or of a template for pods."""
    for name, value in _POD.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in _containers(spec):
        _fill_container(container)
    for volume in listed(spec.get("volumes")):
        _fill_volume(volume)


def _containers(spec: Json) -> list[Json]:
    return [each for field in _CONTAINERS for each in listed(spec.get(field))]


def _fill_container(container: Json) -> None:
    for name, value in _CONTAINER.items():
        container.setdefault(name, value)
    container.setdefault("resources", {})
    image = str(container.get("image") or "")
    if image:
        container.setdefault("imagePullPolicy", "Always" if _moving(image) else "IfNotPresent")
    for port in listed(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for name in _PROBES:
        if name in container:
            _fill_probe(container[name])
    for variable in listed(container.get("env")):
        reference = dig(variable, "valueFrom", "fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _moving(image: str) -> bool:
    """Whether the image's name may mean another image tomorrow."""
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest")


def _fill_probe(probe: Json) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _fill_volume(volume: Json) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for name in _WITH_MODE:
        if name in volume:
            volume[name].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _fill_requests(container: Json) -> None:
    """A limit without a request stands for both."""
    resources = mapped(container.get("resources"))
    limits = mapped(resources.get("limits"))
    if limits:
        resources["requests"] = {**limits, **mapped(resources.get("requests"))}


def quality(spec: Json) -> str:
    """The quality-of-service class: guaranteed where every limit is set and equals the request."""
    containers = listed(spec.get("initContainers")) + listed(spec.get("containers"))
    asks = [_cpu_and_memory(each) for each in containers]
    if not any(requests or limits for requests, limits in asks):
        return "BestEffort"
    if all(len(limits) == 2 and requests == limits for requests, limits in asks):
        return "Guaranteed"
    return "Burstable"


def _cpu_and_memory(container: Json) -> tuple[Json, Json]:
    resources = mapped(container.get("resources"))
    requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
    return requests, limits


def _amounts(values: Any) -> Json:
    amounts = {}
    for name in ("cpu", "memory"):
        written = mapped(values).get(name)
        if written is not None and (nano := quantity.parse(written)) > 0:
            amounts[name] = nano
    return amounts


CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_MANY = 2**31 - 1


def fill_job(job: Json) -> None:
    """Fill in what a Job's manifest does not say. The object is changed."""
    fill_job_spec(job.setdefault("spec", {}))


def generate_job(job: Json) -> None:
    """Give a Job that is about to be created, and has its uid, the labels that find its pods."""
    if not job["spec"].get("manualSelector"):
        _select(job)
    labels = dig(job, "spec", "template", "metadata", "labels")
    if labels and not dig(job, "metadata", "labels"):
        job["metadata"]["labels"] = dict(labels)


def fill_job_spec(spec: Json) -> None:
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MANY)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    with_policy = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if with_policy else "TerminatingOrFailed")
    for rule in listed(dig(spec, "podFailurePolicy", "rules")):
        for pattern in listed(rule.get("onPodConditions")):
            pattern.setdefault("status", "True")
    fill_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _select(job: Json) -> None:
    """Labels with the Job's uid on its pods, and a selector for them: no other Job has the same."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    metadata = job["spec"]["template"].setdefault("metadata", {})
    generated = {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata["labels"] = mapped(metadata.get("labels")) | generated
    job["spec"].setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = uid


def fill_cron_job(cron_job: Json) -> None:
    """Fill in a CronJob. Its Jobs are filled in when they are made, but for their pods."""
    spec = cron_job.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = dig(spec, "jobTemplate", "spec", "template")
    if template is not None:
        template.setdefault("metadata", {})
        fill_spec(template.setdefault("spec", {}))
