# SPDX-License-Identifier: Apache-2.0
"""Validates Deployments and StatefulSets, and updates of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.faults import FieldError, forbidden, invalid
from kuota.api.match import SelectorError, matches

from .columns import dig, listed, mapped
from .job_kinds import MOST_REPLICAS
from .pod_faults import missing, template_faults, unsupported

_RESTART = ("Always",)
_PERCENT = re.compile(r"\d{1,3}%")
_STRATEGIES = {
    "Deployment": ("strategy", ("RollingUpdate", "Recreate")),
    "StatefulSet": ("updateStrategy", ("RollingUpdate", "OnDelete")),
}
_ORDERS = ("OrderedReady", "Parallel")
_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def deployment_faults(obj: Json) -> Iterator[FieldError]:
    spec = mapped(obj.get("spec"))
    yield from _replicated_faults(obj, spec)
    for field in ("maxSurge", "maxUnavailable"):
        value = dig(spec, "strategy", "rollingUpdate", field)
        if value is not None and not _is_share(value):
            path = f"spec.strategy.rollingUpdate.{field}"
            yield invalid(path, value, "must be a number of pods, 0 or more, or a percentage")


def stateful_set_faults(obj: Json) -> Iterator[FieldError]:
    spec = mapped(obj.get("spec"))
    yield from _replicated_faults(obj, spec)
    if spec.get("podManagementPolicy") not in _ORDERS:
        yield unsupported("spec.podManagementPolicy", spec.get("podManagementPolicy"), _ORDERS)
    if (dig(spec, "ordinals", "start") or 0) < 0:
        yield invalid("spec.ordinals.start", dig(spec, "ordinals", "start"), "must be 0 or more")
    if listed(spec.get("volumeClaimTemplates")):
        message = "is not supported here: there are no persistent volumes"
        yield forbidden("spec.volumeClaimTemplates", message, "mount a hostPath volume instead")


def stateful_set_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    before, after = mapped(old.get("spec")), mapped(new.get("spec"))
    for field in sorted({*before, *after}.difference(_CHANGEABLE)):
        if before.get(field) != after.get(field):
            fix = "delete the StatefulSet and create it again"
            yield forbidden(f"spec.{field}", "cannot be changed", fix)


def deployment_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    selector = dig(new, "spec", "selector")
    if selector != dig(old, "spec", "selector"):
        yield invalid("spec.selector", selector, "field is immutable")


def _replicated_faults(obj: Json, spec: Json) -> Iterator[FieldError]:
    count = spec.get("replicas")
    if not isinstance(count, int) or not 0 <= count <= MOST_REPLICAS:
        yield invalid("spec.replicas", count, f"must be from 0 to {MOST_REPLICAS}")
    field, known = _STRATEGIES[str(obj.get("kind"))]
    chosen = dig(spec, field, "type")
    if chosen not in known:
        yield unsupported(f"spec.{field}.type", chosen, known)
    template = mapped(spec.get("template"))
    yield from _selector_faults(spec, mapped(dig(template, "metadata", "labels")))
    yield from template_faults(template, "spec.template", _RESTART)


def _selector_faults(spec: Json, labels: Json) -> Iterator[FieldError]:
    selector = mapped(spec.get("selector"))
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield missing("spec.selector")
        return
    try:
        selected = matches(msgspec.convert(selector, LabelSelector), labels)
    except (msgspec.ValidationError, SelectorError) as error:
        yield invalid("spec.selector", selector, str(error))
        return
    if not selected:
        path, message = "spec.template.metadata.labels", "`selector` does not match these labels"
        yield invalid(path, labels, message)


def _is_share(value: Any) -> bool:
    if isinstance(value, int):
        return value >= 0
    return isinstance(value, str) and bool(_PERCENT.fullmatch(value))
