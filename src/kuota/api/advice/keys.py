# SPDX-License-Identifier: Apache-2.0
"""Warns about labels and annotations that resemble a Kueue key but have no effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, invalid
from ..rules.job_common import QUEUE_NAME
from ..rules.metadata import PREFIX, annotation, annotation_path, label, label_path
from ..rules.report import child, string_map, text
from .templates import pod_templates

_DOMAIN = PREFIX.removesuffix("/")
_SET_BY_USERS = (
    "queue-name",
    "priority-class",
    "max-exec-time-seconds",
    "prebuilt-workload-name",
    "job-min-parallelism",
    "job-completions-equal-parallelism",
    "elastic-job",
    "admission-gated-by",
    "pod-group-name",
    "pod-group-total-count",
    "pod-group-fast-admission",
    "pod-group-serving",
    "pod-group-pod-index-label",
    "retriable-in-group",
    "podset-required-topology",
    "podset-preferred-topology",
    "podset-unconstrained-topology",
    "podset-slice-required-topology",
    "podset-slice-required-topology-constraints",
    "podset-slice-size",
    "podset-group-name",
    "priority-boost",
    "workload-allowed-resource-flavors",
    "safe-to-forcefully-delete",
)
_SET_BY_CONTROLLERS = frozenset(
    {
        "admission",
        "cluster-queue-name",
        "component-workload-index",
        "concurrent-admission",
        "concurrent-admission-parent",
        "is-group-workload",
        "job-owner-gvk",
        "job-owner-name",
        "job-uid",
        "local-queue-name",
        "managed",
        "manager",
        "multikueue-origin",
        "multikueue-origin-uid",
        "multikueue-worker-workload-pod",
        "pod-group-pod-index",
        "pod-index-offset",
        "pod-suspending-parent",
        "podset",
        "raycluster-generation",
        "raycluster-podset-replica-sizes",
        "role-hash",
        "stopping",
        "topology",
        "workload",
        "workload-slice-name",
        "workload-slice-replacement-for",
        "workloadpriorityclass",
    }
)
_KNOWN = _SET_BY_CONTROLLERS.union(_SET_BY_USERS)
_SHORTEST_STEM = 5
_LIKE_NAME, _LIKE_DOMAIN = 0.8, 0.7


def misspelt_keys(obj: Json) -> Iterator[FieldError]:
    """Yield a warning for each key that resembles a Kueue key.

    Both the object and its pod templates are inspected.
    """
    places = [("metadata", child(obj, "metadata"))]
    places += [
        (f"{path}.metadata", child(template, "metadata"))
        for path, template in pod_templates(obj)
        if path
    ]
    for path, metadata in places:
        for field in ("labels", "annotations"):
            for key in string_map(metadata.get(field)):
                meant = intended_key(key)
                if meant:
                    message = f"Kueue does not know {key}, and ignores it"
                    yield invalid(f"{path}.{field}[{key}]", key, message, f"did you mean {meant}?")


def intended_key(key: str) -> str:
    """Return the Kueue key that a similar key probably stands for, or "" if there is none."""
    domain, slash, name = key.partition("/")
    if not slash:
        meant = {_plain(PREFIX + each): each for each in _SET_BY_USERS}.get(_plain(key))
        return PREFIX + meant if meant else ""
    if domain == _DOMAIN:
        meant = None if name in _KNOWN else _intended_name(name)
        return PREFIX + meant if meant else ""
    if domain.endswith(f".{_DOMAIN}") or _likeness(domain, _DOMAIN) < _LIKE_DOMAIN:
        return ""
    meant = name if name in _SET_BY_USERS else _intended_name(name)
    return PREFIX + meant if meant else ""


def _intended_name(name: str) -> str | None:
    plain = {_plain(each): each for each in reversed(_SET_BY_USERS)}
    exact = plain.get(_plain(name))
    if exact is not None:
        return exact
    if len(name) >= _SHORTEST_STEM:
        stems = [each for each in _SET_BY_USERS if each.startswith(name.lower())]
        if stems:
            return stems[0]
    close = difflib.get_close_matches(_plain(name), list(plain), n=1, cutoff=_LIKE_NAME)
    return plain[close[0]] if close else None


def _plain(key: str) -> str:
    """Return the key without case and punctuation, which are easily confused."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other).ratio()


def misplaced_queue_name(obj: Json) -> Iterator[FieldError]:
    """Yield a warning if the queue name is an annotation, or is only on a Job's pod template."""
    if label(obj, QUEUE_NAME) is not None:
        return
    fix = f"move it to {label_path(QUEUE_NAME)}"
    if annotation(obj, QUEUE_NAME) is not None:
        message = "Kueue reads the queue name from a label, and ignores this annotation"
        yield invalid(annotation_path(QUEUE_NAME), annotation(obj, QUEUE_NAME), message, fix)
    if text(obj.get("kind")) != "Job":
        return
    for path, template in pod_templates(obj):
        named = label(template, QUEUE_NAME)
        if named is not None:
            message = "the queue name of a Job is a label of the Job itself, not of its pods"
            yield invalid(f"{path}.{label_path(QUEUE_NAME)}", named, message, fix)
