# SPDX-License-Identifier: Apache-2.0
"""Validates Pods as Kueue's webhook does: rules common to all jobs, and those of pod groups.

The API server validates the Pod itself. A field of the wrong type is treated as absent here.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..base import Json
from ..core import GROUP_NAME, is_terminated
from ..faults import FieldError, forbidden, immutable, invalid, malformed, required
from ..gates import DEFAULT_GATES, Gate, Gates
from .job_common import Supported, common_faults, common_update_faults, prebuilt
from .metadata import PREFIX, annotation, annotation_path, label, label_path
from .report import child, elements, mapping, whole
from .topology import topology_faults

MANAGED = f"{PREFIX}managed"
GROUP_TOTAL = f"{PREFIX}pod-group-total-count"
RETRIABLE = f"{PREFIX}retriable-in-group"
SUSPENDING_PARENT = f"{PREFIX}pod-suspending-parent"
ADMISSION_GATE = f"{PREFIX}admission"
SUPPORTED = Supported(prebuilt=True)


def pod_faults(
    obj: Json,
    old: Json | None = None,
    gates: Gates = DEFAULT_GATES,
    *,
    default_queue: bool = False,
) -> list[FieldError]:
    """Return the faults for which Kueue rejects a Pod, created or updated from `old`.

    `default_queue` states whether the namespace has a LocalQueue named `default`.
    """
    pod, before = mapping(obj), None if old is None else mapping(old)
    return list(_faults(pod, before, gates, default_queue))


def pod_warnings(obj: Json, old: Json | None = None, *, owned: bool) -> list[FieldError]:
    """Return what Kueue accepts with a warning. `owned`: a managed kind controls the Pod."""
    parent = old is not None and annotation(obj, SUSPENDING_PARENT) is not None
    if not owned or parent or label(obj, MANAGED) != "true":
        return []
    message = "the owner of the Pod is managed too, so that both may be queued"
    return [invalid(label_path(MANAGED), "true", message, "remove the label")]


def _faults(pod: Json, old: Json | None, gates: Gates, default_queue: bool) -> Iterator[FieldError]:
    if old is None:
        yield from common_faults(pod, gates, SUPPORTED)
    else:
        yield from common_update_faults(pod, old, gates, SUPPORTED, default_queue, at_rest=_at_rest)
        yield from _update_faults(pod, old, gates)
    if label(pod, MANAGED) not in (None, "true"):
        yield forbidden(label_path(MANAGED), "can only be true", 'write "true", or remove it')
    yield from _group_faults(pod, gates)
    yield from topology_faults(child(pod, "metadata"), "metadata", None, gates)


def _at_rest(pod: Json) -> bool:
    """Whether the Pod is not running: it has terminated, or is still gated by admission."""
    gates = elements(child(pod, "spec").get("schedulingGates"))
    return is_terminated(pod) or any(mapping(each).get("name") == ADMISSION_GATE for each in gates)


def group(pod: Json, gates: Gates) -> tuple[str, str]:
    """Return the name of the pod group, or "" if there is none, and the path of the name."""
    name = annotation(pod, GROUP_NAME)
    if name and gates.on(Gate.WorkloadIdentifierAnnotations):
        return name, annotation_path(GROUP_NAME)
    return label(pod, GROUP_NAME) or "", label_path(GROUP_NAME)


def _group_faults(pod: Json, gates: Gates) -> Iterator[FieldError]:
    (name, path), total = group(pod, gates), annotation(pod, GROUP_TOTAL)
    if not name:
        if total is not None:
            message = f"a Pod with {annotation_path(GROUP_TOTAL)} needs the name of its group"
            yield required(path, message, f"set {path}")
        return
    yield from malformed(path, name, names.dns_subdomain(name))
    at = annotation_path(GROUP_TOTAL)
    if total is None:
        message = f"a Pod with {path} has to say how many Pods its group has"
        yield required(at, message, f"set {at}")
    elif not 0 < (whole(total) or 0) < 2**63:
        yield invalid(at, total, f'must be a whole number of Pods, 1 or more, is "{total}"')
    made, made_at = prebuilt(pod, gates)
    if made and made != name:
        message = f"the workload of a group must have the name of the group, {name}"
        yield invalid(made_at, made, message, "use one name for both")


def _update_faults(pod: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    (name, path), before = group(pod, gates), group(old, gates)[0]
    if before and name != before:
        yield immutable(path, name, "once the Pod is in a group", "create the Pod anew")
    if name and annotation(old, RETRIABLE) == "false" and annotation(pod, RETRIABLE) != "false":
        message = "cannot be changed once it is false"
        yield forbidden(annotation_path(RETRIABLE), message, "create the Pod anew")
