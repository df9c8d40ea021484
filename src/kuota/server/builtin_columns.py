# SPDX-License-Identifier: Apache-2.0
"""The columns of Kubernetes' own kinds in `kubectl get`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kuota.api.base import Json
from kuota.api.owners import controller_of

from .columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Column,
    age,
    dig,
    human,
    listed,
    mapped,
    parsed_time,
)

_ROLE = "node-role.kubernetes.io/"
# The conditions that determine the status of a Job; the first true one counts.
_OF_JOB = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _at(*path: str | int, absent: Any = NONE) -> Cell:
    """A cell that shows one field, or `absent` if it is not set."""

    def cell(obj: Json, now: datetime) -> Any:
        value = dig(obj, *path)
        return absent if value is None or value == "" else value

    return cell


def _flag(*path: str) -> Cell:
    return lambda obj, now: str(dig(obj, *path) is True)


def _size(*fields: str) -> Cell:
    return lambda obj, now: sum(len(mapped(obj.get(field))) for field in fields)


def _since(*path: str) -> Cell:
    def cell(obj: Json, now: datetime) -> str:
        value = dig(obj, *path)
        return NONE if value is None else age(value, now)

    return cell


def condition(obj: Json, type_: str) -> str:
    """The status of the condition of this type; "" if it is absent."""
    for each in listed(dig(obj, "status", "conditions")):
        if dig(each, "type") == type_:
            return str(dig(each, "status") or "")
    return ""


def _ready_replicas(obj: Json, now: datetime) -> str:
    return f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}"


def _controller(obj: Json, now: datetime) -> str:
    """The controller, as kubectl writes it: statefulset.apps/db."""
    owner = controller_of(obj)
    if owner is None:
        return str(NONE)
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    kind = str(owner.get("kind") or "").lower()
    return f"{kind}{'.' if group else ''}{group}/{owner.get('name')}"


def _job_status(job: Json, now: datetime) -> str:
    holding = [type_ for type_ in _OF_JOB if condition(job, type_) == "True"]
    if dig(job, "metadata", "deletionTimestamp") and not {"Complete", "Failed"} & set(holding):
        return "Terminating"
    return holding[0] if holding else "Running"


def _completions(job: Json, now: datetime) -> str:
    done, wanted = dig(job, "status", "succeeded") or 0, dig(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(job: Json, now: datetime) -> str:
    start = parsed_time(dig(job, "status", "startTime"))
    if start is None:
        return ""
    end = parsed_time(dig(job, "status", "completionTime"))
    return human(((end or now) - start).total_seconds())


def _containers(field: str, *path: str) -> Cell:
    def cell(obj: Json, now: datetime) -> str:
        found = listed(dig(obj, *path, "template", "spec", "containers"))
        return ",".join(str(dig(each, field) or "") for each in found)

    return cell


def _selector(*path: str) -> Cell:
    def cell(obj: Json, now: datetime) -> str:
        labels = mapped(dig(obj, *path))
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE

    return cell


def _node_status(node: Json, now: datetime) -> str:
    ready = condition(node, "Ready")
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if dig(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Json, now: datetime) -> str:
    labels = mapped(dig(node, "metadata", "labels"))
    roles = sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))
    return ",".join(role for role in roles if role) or NONE


def _address(type_: str) -> Cell:
    def cell(node: Json, now: datetime) -> str:
        for each in listed(dig(node, "status", "addresses")):
            if dig(each, "type") == type_:
                return str(dig(each, "address") or NONE)
        return NONE

    return cell


def _last_seen(event: Json, now: datetime) -> str:
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",)):
        if (value := dig(event, *path)) is not None:
            return age(value, now)
    return UNKNOWN


def _first_seen(event: Json, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _object(event: Json, now: datetime) -> str:
    about = mapped(event.get("involvedObject"))
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _source(event: Json, now: datetime) -> str:
    parts = (dig(event, "source", "component"), dig(event, "source", "host"))
    return ", ".join(str(each) for each in parts if each) or str(
        event.get("reportingComponent") or ""
    )


def _quota(prefix_is_limit: bool) -> Cell:
    def cell(quota: Json, now: datetime) -> str:
        hard, used = mapped(dig(quota, "status", "hard")), mapped(dig(quota, "status", "used"))
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{bound}"
            for name, bound in sorted(hard.items())
            if name.startswith("limits") == prefix_is_limit
        )

    return cell


def _ports(service: Json, now: datetime) -> str:
    ports = listed(dig(service, "spec", "ports"))
    shown = (f"{dig(each, 'port')}/{dig(each, 'protocol') or 'TCP'}" for each in ports)
    return ",".join(shown) or NONE


def ready(pod: Json, now: datetime) -> str:
    statuses = listed(dig(pod, "status", "containerStatuses"))
    count = sum(1 for each in statuses if dig(each, "ready") is True)
    return f"{count}/{len(listed(dig(pod, 'spec', 'containers')))}"


def word(pod: Json, now: datetime) -> str:
    """The most important reason: of an init container, of a container, otherwise the phase."""
    found = _init_word(pod)
    if found is None:
        found = _container_word(pod) or dig(pod, "status", "reason")
    found = found or dig(pod, "status", "phase") or "Unknown"
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if dig(pod, "status", "reason") == "NodeLost" else "Terminating"
    if found == "Pending" and listed(dig(pod, "spec", "schedulingGates")):
        return "SchedulingGated"
    return str(found)


def _init_word(pod: Json) -> str | None:
    """Why init containers have not completed; None if they have, or there are none."""
    statuses = listed(dig(pod, "status", "initContainerStatuses"))
    total = len(listed(dig(pod, "spec", "initContainers")))
    for done, status in enumerate(statuses):
        ended, waiting = dig(status, "state", "terminated"), dig(status, "state", "waiting")
        if dig(ended, "exitCode") == 0:
            continue
        if ended is not None:
            return "Init:" + _ended(mapped(ended))
        reason = dig(waiting, "reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{done}/{total}"
    return None


def _container_word(pod: Json) -> str | None:
    found, running = None, False
    for status in reversed(listed(dig(pod, "status", "containerStatuses"))):
        state = mapped(dig(status, "state"))
        if reason := dig(state, "waiting", "reason"):
            found = str(reason)
        elif "terminated" in state:
            found = _ended(mapped(state["terminated"]))
        elif dig(status, "ready") and "running" in state:
            running = True
    if found == "Completed" and running:
        return "Running"
    return found


def _ended(state: Json) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def restarts(pod: Json, now: datetime) -> str:
    """The number of restarts, and the time since the last one."""
    count, last = 0, None
    for status in listed(dig(pod, "status", "containerStatuses")):
        count += dig(status, "restartCount") or 0
        at = dig(status, "lastState", "terminated", "finishedAt")
        if parsed_time(at) is not None and (last is None or at > last):
            last = at
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


_CREATED = Column("Created At", _at("metadata", "creationTimestamp", absent=UNKNOWN))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "Namespace": (NAME, Column("Status", _at("status", "phase")), AGE),
    "Node": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status", "nodeInfo", "osImage", absent=UNKNOWN), wide=True),
        Column("Kernel-Version", _at("status", "nodeInfo", "kernelVersion"), wide=True),
        Column(
            "Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion"), wide=True
        ),
    ),
    "Pod": (
        NAME,
        Column("Ready", ready, description="Containers that are ready, of all"),
        Column("Status", word, description="How the pod is, in a word"),
        Column("Restarts", restarts, description="How often its containers were restarted"),
        AGE,
        Column("IP", _at("status", "podIP"), wide=True),
        Column("Node", _at("spec", "nodeName"), wide=True),
        Column("Nominated Node", _at("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", lambda pod, now: NONE, wide=True),
    ),
    "Job": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", _duration),
        AGE,
        Column("Containers", _containers("name", "spec"), wide=True),
        Column("Images", _containers("image", "spec"), wide=True),
        Column("Selector", _selector("spec", "selector", "matchLabels"), wide=True),
    ),
    "CronJob": (
        NAME,
        Column("Schedule", _at("spec", "schedule")),
        Column("Timezone", _at("spec", "timeZone")),
        Column("Suspend", _flag("spec", "suspend"), "boolean"),
        Column("Active", lambda obj, now: len(listed(dig(obj, "status", "active"))), "integer"),
        Column("Last Schedule", _since("status", "lastScheduleTime")),
        AGE,
        Column("Containers", _containers("name", "spec", "jobTemplate", "spec"), wide=True),
        Column("Images", _containers("image", "spec", "jobTemplate", "spec"), wide=True),
    ),
    "Deployment": (
        NAME,
        Column("Ready", _ready_replicas),
        Column("Up-to-date", _at("status", "updatedReplicas", absent=0), "integer"),
        Column("Available", _at("status", "availableReplicas", absent=0), "integer"),
        AGE,
        Column("Containers", _containers("name", "spec"), wide=True),
        Column("Images", _containers("image", "spec"), wide=True),
        Column("Selector", _selector("spec", "selector", "matchLabels"), wide=True),
    ),
    "ReplicaSet": (
        NAME,
        Column("Desired", _at("spec", "replicas", absent=0), "integer"),
        Column("Current", _at("status", "replicas", absent=0), "integer"),
        Column("Ready", _at("status", "readyReplicas", absent=0), "integer"),
        AGE,
        Column("Containers", _containers("name", "spec"), wide=True),
        Column("Images", _containers("image", "spec"), wide=True),
        Column("Selector", _selector("spec", "selector", "matchLabels"), wide=True),
    ),
    "ControllerRevision": (
        NAME,
        Column("Controller", _controller),
        Column("Revision", _at("revision", absent=0), "integer"),
        AGE,
    ),
    "StatefulSet": (
        NAME,
        Column("Ready", _ready_replicas),
        AGE,
        Column("Containers", _containers("name", "spec"), wide=True),
        Column("Images", _containers("image", "spec"), wide=True),
    ),
    "Event": (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _object),
        Column("Subobject", _at("involvedObject", "fieldPath", absent=""), wide=True),
        Column("Source", _source, wide=True),
        Column("Message", lambda obj, now: str(obj.get("message") or "").strip()),
        Column("First Seen", _first_seen, wide=True),
        Column("Count", lambda obj, now: obj.get("count") or 1, "integer", wide=True),
        Column("Name", NAME.cell, wide=True, format="name"),
    ),
    "ConfigMap": (NAME, Column("Data", _size("data", "binaryData"), "integer"), AGE),
    "Secret": (
        NAME,
        Column("Type", _at("type")),
        Column("Data", _size("data"), "integer"),
        AGE,
    ),
    "ServiceAccount": (NAME, AGE),
    "Service": (
        NAME,
        Column("Type", _at("spec", "type", absent="ClusterIP")),
        Column("Cluster-IP", _at("spec", "clusterIP")),
        Column("External-IP", lambda obj, now: NONE),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _selector("spec", "selector"), wide=True),
    ),
    "LimitRange": (NAME, _CREATED),
    "ResourceQuota": (
        NAME,
        Column("Request", _quota(False)),
        Column("Limit", _quota(True)),
        AGE,
    ),
    "PriorityClass": (
        NAME,
        Column("Value", _at("value", absent=0), "integer"),
        Column("Global-Default", lambda obj, now: obj.get("globalDefault") is True, "boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "Lease": (NAME, Column("Holder", _at("spec", "holderIdentity", absent="")), AGE),
    "RuntimeClass": (NAME, Column("Handler", _at("handler")), AGE),
    "CustomResourceDefinition": (NAME, _CREATED),
}
