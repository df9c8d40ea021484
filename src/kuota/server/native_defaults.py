# SPDX-License-Identifier: Apache-2.0
"""Defaults of Kubernetes' own kinds.

The functions in the tables at the end change their argument.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from kuota.api import quantity
from kuota.api.base import Json

from .columns import dig, listed, mapped
from .crd import fill_crd

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
_JOB: Json = {
    "parallelism": 1,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
}
_CRON_JOB: Json = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
_DEPLOYMENT: Json = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
_STATEFUL_SET: Json = {"replicas": 1, "revisionHistoryLimit": 10, "serviceName": ""}
_QUARTER = "25%"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_MANY = 2**31 - 1


def _default(obj: Json, values: Json) -> None:
    for name, value in values.items():
        obj.setdefault(name, value)


def _fill_new_pod(pod: Json) -> None:
    _fill_pod(pod)
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _fill_requests(container)


def _fill_pod(pod: Json) -> None:
    fill_spec(pod.setdefault("spec", {}))


def _generate_pod(pod: Json) -> None:
    """Set the service account and the initial status of a new pod."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    pod["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def fill_spec(spec: Json) -> None:
    """Set the defaults of a pod spec."""
    _default(spec, _POD)
    spec.setdefault("securityContext", {})
    for container in _containers(spec):
        _fill_container(container)
    for volume in listed(spec.get("volumes")):
        _fill_volume(volume)


def _containers(spec: Json) -> list[Json]:
    return [each for field in _CONTAINERS for each in listed(spec.get(field))]


def _fill_container(container: Json) -> None:
    _default(container, _CONTAINER)
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
    """Whether the image name has no fixed version."""
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest")


def _fill_probe(probe: Json) -> None:
    _default(probe, _PROBE)
    if "httpGet" in probe:
        _default(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def _fill_volume(volume: Json) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for name in _WITH_MODE:
        if name in volume:
            volume[name].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _fill_requests(container: Json) -> None:
    """Use a limit as the request if there is none."""
    resources = mapped(container.get("resources"))
    limits = mapped(resources.get("limits"))
    if limits:
        resources["requests"] = {**limits, **mapped(resources.get("requests"))}


def _quality(spec: Json) -> str:
    """The QoS class: Guaranteed if every limit is set and equals the request."""
    containers = listed(spec.get("initContainers")) + listed(spec.get("containers"))
    resources = [mapped(each.get("resources")) for each in containers]
    asks = [(_amounts(each.get("requests")), _amounts(each.get("limits"))) for each in resources]
    if not any(requests or limits for requests, limits in asks):
        return "BestEffort"
    if all(len(limits) == 2 and requests == limits for requests, limits in asks):
        return "Guaranteed"
    return "Burstable"


def _amounts(values: Any) -> Json:
    """The nonzero amounts of CPU and memory, in nano-units."""
    found = {name: mapped(values).get(name) for name in ("cpu", "memory")}
    amounts = {name: quantity.parse(each) for name, each in found.items() if each is not None}
    return {name: nano for name, nano in amounts.items() if nano > 0}


def _generate_job(job: Json) -> None:
    """Set the labels and the selector of a new Job, which already has its uid."""
    if not job["spec"].get("manualSelector"):
        _select(job)
    labels = dig(job, "spec", "template", "metadata", "labels")
    if labels and not dig(job, "metadata", "labels"):
        job["metadata"]["labels"] = dict(labels)


def _fill_job(job: Json) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    _default(spec, _JOB)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MANY)
    with_policy = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if with_policy else "TerminatingOrFailed")
    for rule in listed(dig(spec, "podFailurePolicy", "rules")):
        for pattern in listed(rule.get("onPodConditions")):
            pattern.setdefault("status", "True")
    fill_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _select(job: Json) -> None:
    """Add labels with the uid of the Job to its pods, and a unique selector."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    metadata = job["spec"]["template"].setdefault("metadata", {})
    generated = {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata["labels"] = mapped(metadata.get("labels")) | generated
    job["spec"].setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = uid


def _fill_cron_job(cron_job: Json) -> None:
    """Set the defaults of a CronJob and its pod template. Its Jobs get theirs on creation."""
    spec = cron_job.setdefault("spec", {})
    _default(spec, _CRON_JOB)
    inner = dig(spec, "jobTemplate", "spec")
    if dig(inner, "template") is not None:
        _fill_template(inner)


def _fill_deployment(deployment: Json) -> None:
    spec = deployment.setdefault("spec", {})
    _default(spec, _DEPLOYMENT)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        _default(rolling, {"maxSurge": _QUARTER, "maxUnavailable": _QUARTER})
    _fill_template(spec)


def _fill_stateful_set(stateful_set: Json) -> None:
    spec = stateful_set.setdefault("spec", {})
    _default(spec, _STATEFUL_SET)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    _fill_template(spec)


def _generate_stateful_set(stateful_set: Json) -> None:
    stateful_set["status"] = {"replicas": 0, "availableReplicas": 0}


def _fill_template(spec: Json) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    fill_spec(template.setdefault("spec", {}))


def _fill_namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = mapped(metadata.get("labels")) | {
        "kubernetes.io/metadata.name": metadata.get("name", "")
    }


def _generate_namespace(namespace: Json) -> None:
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _fill_secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None)
    for name, value in mapped(plain).items():
        coded = base64.b64encode(str(value).encode(errors="surrogatepass")).decode()
        secret.setdefault("data", {})[name] = coded


def _fill_priority_class(priority_class: Json) -> None:
    _default(priority_class, {"preemptionPolicy": "PreemptLowerPriority", "value": 0})


def _fill_limit_range(limit_range: Json) -> None:
    """The default limit is the maximum; the default request is the limit or the minimum."""
    for item in mapped(limit_range.get("spec")).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = mapped(item.get("max")) | mapped(item.get("default"))
        requests = mapped(item.get("min")) | limits | mapped(item.get("defaultRequest"))
        for field, amounts in (("default", limits), ("defaultRequest", requests)):
            if amounts:
                item[field] = amounts


def _fill_service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    _default(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


REFILL: dict[str, Callable[[Json], None]] = {
    "customresourcedefinitions.apiextensions.k8s.io": fill_crd,
    "cronjobs.batch": _fill_cron_job,
    "deployments.apps": _fill_deployment,
    "jobs.batch": _fill_job,
    "limitranges": _fill_limit_range,
    "namespaces": _fill_namespace,
    "pods": _fill_pod,
    "priorityclasses.scheduling.k8s.io": _fill_priority_class,
    "secrets": _fill_secret,
    "services": _fill_service,
    "statefulsets.apps": _fill_stateful_set,
}
"""Set defaults at every write, by resource."""
FILL = REFILL | {"pods": _fill_new_pod}
"""Set defaults of a new object, by resource."""
GENERATE: dict[str, Callable[[Json], None]] = {
    "jobs.batch": _generate_job,
    "namespaces": _generate_namespace,
    "pods": _generate_pod,
    "statefulsets.apps": _generate_stateful_set,
}
"""Adds generated fields to a new object, which already has its uid."""
