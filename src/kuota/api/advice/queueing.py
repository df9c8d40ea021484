# SPDX-License-Identifier: Apache-2.0
"""Warns about queue names that have no effect, and about queues and classes that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..base import Json, group_of
from ..config.frameworks import FRAMEWORKS
from ..faults import FieldError, invalid
from ..kueue import GROUP
from ..rules.job_common import PRIORITY_CLASS, QUEUE_NAME
from ..rules.metadata import label, label_path
from ..rules.report import child, elements, mapping, text
from ..structure.faults import suggestion
from .environment import Environment, GroupKind

_INTEGRATIONS = {(gvk.group, gvk.kind): name for name, gvk in FRAMEWORKS.items()}


def queue_name_without_controller(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning if the object has a queue name but its kind is not queued."""
    group = group_of(text(obj.get("apiVersion")))
    kind = (group, text(obj.get("kind")))
    name = label(obj, QUEUE_NAME)
    if not name or group == GROUP or kind in environment.queued or _controlled(obj):
        return
    message, fix = _words(kind)
    yield invalid(label_path(QUEUE_NAME), name, message, fix)


def references_without_object(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning for a LocalQueue and a WorkloadPriorityClass of a job that do not exist."""
    kind = text(obj.get("kind"))
    if (group_of(text(obj.get("apiVersion"))), kind) not in environment.queued or _controlled(obj):
        return
    namespace = text(child(obj, "metadata").get("namespace"))
    queue = label(obj, QUEUE_NAME)
    queues = environment.local_queues(namespace) if queue else None
    if queue and queues is not None and queue not in queues:
        message = f"there is no LocalQueue {queue} in namespace {namespace}: the {kind} waits"
        fix = _instead(queue, queues, "LocalQueues there")
        yield invalid(label_path(QUEUE_NAME), queue, message, fix)
    name = label(obj, PRIORITY_CLASS)
    classes = environment.priority_classes() if name else None
    if name and classes is not None and name not in classes:
        message = f"there is no WorkloadPriorityClass {name}: the {kind} is not queued without it"
        fix = _instead(name, classes, "WorkloadPriorityClasses")
        yield invalid(label_path(PRIORITY_CLASS), name, message, fix)


def _instead(name: str, known: Collection[str], title: str) -> str:
    found = ", ".join(sorted(known)[:5]) or "none"
    return suggestion(name, known) or f"{title}: {found}"


def _words(kind: GroupKind) -> tuple[str, str]:
    name = _INTEGRATIONS.get(kind, "")
    if name:
        return (
            f"the integration {name} is disabled, so this {kind[1]} runs at once and without quota",
            f"add {name} to integrations.frameworks of the configuration",
        )
    if kind == ("batch", "CronJob"):
        return (
            "a CronJob is not queued itself, and its Jobs do not inherit its labels",
            f"move it to spec.jobTemplate.{label_path(QUEUE_NAME)}",
        )
    return (
        f"objects of kind {kind[1]} are not queued themselves, so the queue name has an effect "
        "only if its controller copies the label to pods or jobs",
        "",
    )


def _controlled(obj: Json) -> bool:
    """Whether another object controls this one. The warning then belongs to the controller."""
    owners = elements(child(obj, "metadata").get("ownerReferences"))
    return any(mapping(each).get("controller") is True for each in owners)
