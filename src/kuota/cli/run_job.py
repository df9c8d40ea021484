# SPDX-License-Identifier: Apache-2.0
"""Builds the Job that `kuota run` submits from its command-line options."""

from __future__ import annotations

import re

import msgspec

from kuota.api.base import Json
from kuota.api.rules.job_common import MAX_EXEC_TIME, PRIORITY_CLASS, QUEUE_NAME

_WORKLOAD_CLASS, _POD_CLASS = "WorkloadPriorityClass", "PriorityClass"
CLASSES = (_WORKLOAD_CLASS, _POD_CLASS)
_LONGEST = 40
_IGNORE_DISRUPTIONS = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""A pod that ended with its machine or node is replaced, and does not count as a failure."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `kuota run`. `amounts` are per pod; empty strings were not given."""

    arguments: tuple[str, ...]
    queue: str = ""
    amounts: dict[str, str] = {}
    priority: str = ""
    name: str = ""
    parallelism: int = 1
    retries: int = 0
    requeue: bool = True
    """Whether the command runs again after a disruption, without using up a retry."""
    time_limit_s: int | None = None
    grace_s: int | None = None
    variables: dict[str, str] = {}
    workdir: str = ""
    image: str = ""


def job_of(asked: RunRequest, namespace: str, priority_kind: str = _WORKLOAD_CLASS) -> Json:
    """Return the Job's manifest. `priority_kind` is the kind of the class `asked.priority`."""
    queued = {"suspend": True} if asked.queue else {}
    together = {"completionMode": "Indexed"} if asked.parallelism > 1 else {}
    metadata: Json = {"namespace": namespace}
    if asked.name:
        metadata["name"] = asked.name
    else:
        metadata["generateName"] = f"{_stem(asked.arguments[0])}-"
    labels = _labels(asked, priority_kind)
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": asked.parallelism,
            "completions": asked.parallelism,
            **together,
            "backoffLimit": asked.retries,
            **({"podFailurePolicy": {"rules": [_IGNORE_DISRUPTIONS]}} if asked.requeue else {}),
            **queued,
            "template": {"spec": _pod(asked, priority_kind)},
        },
    }


def is_queued(job: Json) -> bool:
    """Whether the Job names a queue."""
    return QUEUE_NAME in (job["metadata"].get("labels") or {})


def _labels(asked: RunRequest, priority_kind: str) -> dict[str, str]:
    labels = {QUEUE_NAME: asked.queue}
    if priority_kind == _WORKLOAD_CLASS:
        labels[PRIORITY_CLASS] = asked.priority
    if asked.time_limit_s is not None and asked.queue:
        labels[MAX_EXEC_TIME] = str(asked.time_limit_s)
    return {name: value for name, value in labels.items() if value}


def _pod(asked: RunRequest, priority_kind: str) -> Json:
    spec: Json = {"restartPolicy": "Never", "containers": [_container(asked)]}
    if asked.priority and priority_kind == _POD_CLASS:
        spec["priorityClassName"] = asked.priority
    if asked.grace_s is not None:
        spec["terminationGracePeriodSeconds"] = asked.grace_s
    if asked.time_limit_s is not None and not asked.queue:
        spec["activeDeadlineSeconds"] = asked.time_limit_s
    return spec


def _container(asked: RunRequest) -> Json:
    command = [_literal(each) for each in asked.arguments]
    container: Json = {"name": "main", "image": asked.image, "command": command}
    if asked.workdir:
        container["workingDir"] = asked.workdir
    if asked.variables:
        container["env"] = [
            {"name": name, "value": _literal(value)} for name, value in asked.variables.items()
        ]
    if asked.amounts:
        resources: Json = {"requests": dict(asked.amounts)}
        # Extended resources cannot be overcommitted: their limit must equal their request.
        devices = {name: amount for name, amount in asked.amounts.items() if "/" in name}
        container["resources"] = resources | ({"limits": devices} if devices else {})
    return container


def _literal(text: str) -> str:
    """Escape the text for a pod, where "$" starts a variable reference."""
    return text.replace("$", "$$")


def _stem(command: str) -> str:
    """Return a Job name for a program: "/opt/Train_v2.sh" becomes "train-v2-sh"."""
    base = command.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", base).strip("-")[:_LONGEST].strip("-") or "job"
