# SPDX-License-Identifier: Apache-2.0
"""The fields of core, batch, scheduling and node kinds that Kuota reads."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .base import Condition, Json, LabelSelectorRequirement, Object, Quantity, ResourceList, Struct

RUN_AS = "kuota.dev/run-as-uid"
"""The user whose permissions apply to the processes of a pod. The server sets it."""

DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The reason of a job or pod that failed because it ran longer than its activeDeadlineSeconds."""
AUTHOR_ROLE = "kuota.dev/author-role"
"""Says `admin` on pods and templates that an admin submitted. The server sets it."""
ADMIN_ROLE = "admin"

AUTHOR = "kuota.dev/author"
"""The user who submitted a job. The server or a webhook sets it, and the Workload has a copy."""

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"

ENDED = ("Succeeded", "Failed")
"""The phases of a finished pod."""
_ENDS = ("Complete", "Failed")


class Taint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(LabelSelectorRequirement):
    """A label selector requirement that also allows the operators Gt and Lt."""


class NodeSelectorTerm(Struct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Struct):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = (
        None
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: Json | None = None
    pod_anti_affinity: Json | None = None


class ResourceRequirements(Struct):
    limits: ResourceList | None = None
    requests: ResourceList | None = None
    claims: list[Json] | None = None


class Container(Struct):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[Json] | None = None
    restart_policy: str = ""


class PodSpec(Struct):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    runtime_class_name: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    topology_spread_constraints: list[Json] | None = None
    overhead: ResourceList | None = None
    resource_claims: list[Json] | None = None
    resources: ResourceRequirements | None = None
    scheduling_gates: list[Json] | None = None
    restart_policy: str = ""
    node_name: str = ""


class TemplateMeta(Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplateSpec(Struct):
    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class NamespaceStatus(Struct):
    phase: str = ""


class Namespace(Object):
    status: NamespaceStatus = NamespaceStatus()


class PodStatus(Struct):
    phase: str = ""
    conditions: list[Condition] | None = None


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Struct):
    taints: list[Taint] | None = None
    unschedulable: bool = False


class NodeStatus(Struct):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    conditions: list[Condition] | None = None


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LimitRangeItem(Struct):
    type: str = ""
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: dict[str, Quantity] | None = None


class LimitRangeSpec(Struct):
    limits: list[LimitRangeItem] | None = None


class LimitRange(Object):
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Struct):
    pod_fixed: ResourceList | None = None


class RuntimeClass(Object):
    handler: str = ""
    overhead: Overhead | None = None


class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str = ""


def argv(container: Json) -> list[str]:
    """Return what a container runs where images are not pulled; nothing if that is unknown.

    Without a command, the args are the command line, as for an image without an entrypoint, unless
    they begin with an option: `kubectl run NAME --image=IMAGE -- COMMAND` sets only args.
    """
    command, args = (_words(container.get(field)) for field in ("command", "args"))
    if command:
        return command + args if command[0] else []
    return args if args and args[0] and not args[0].startswith("-") else []


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def is_terminated(pod: Json) -> bool:
    """Whether the pod succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ENDED


def is_finished(job: Json) -> bool:
    """Whether the Job has completed or failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(e.get("type") in _ENDS and e.get("status") == "True" for e in conditions)


def is_trusted(pod: Json) -> bool:
    """Whether an admin submitted the pod, or the Job that it belongs to."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(AUTHOR_ROLE) == ADMIN_ROLE)


def containers(spec: Json) -> list[Json]:
    """Return the init containers and containers of a pod spec, in start order."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


class JobSpec(Struct):
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    managed_by: str | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class UncountedTerminatedPods(Struct):
    """UIDs of finished pods that the counters of the status do not include yet."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobStatus(Struct):
    conditions: list[Condition] | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
