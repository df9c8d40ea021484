# SPDX-License-Identifier: Apache-2.0
"""Warns about objects with a queue name that no controller queues and that run without quota."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json, group_of
from ..config.frameworks import FRAMEWORKS
from ..faults import FieldError, invalid
from ..kueue import GROUP
from ..rules.job_common import QUEUE_NAME
from ..rules.metadata import label, label_path
from ..rules.report import child, elements, mapping, text
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
    return f"objects of kind {kind[1]} are not queued, so the queue name has no effect", ""


def _controlled(obj: Json) -> bool:
    """Whether another object controls this one. The warning then belongs to the controller."""
    owners = elements(child(obj, "metadata").get("ownerReferences"))
    return any(mapping(each).get("controller") is True for each in owners)
