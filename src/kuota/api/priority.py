# SPDX-License-Identifier: Apache-2.0
"""How important a workload is: its own priority, a boost, and the classes both come from."""

from __future__ import annotations

from collections.abc import Mapping

from .core import PriorityClass
from .kueue import WorkloadPriorityClass
from .match import integer
from .workload import PriorityClassRef, Workload

BOOST = "kueue.x-k8s.io/priority-boost"
DEFAULT_CLASS = "default"

_INT32 = range(-(2**31), 2**31)


class BoostError(ValueError):
    """The boost annotation does not hold a 32-bit integer."""


class ClassMissing(LookupError):
    """A job names a priority class that does not exist."""


def priority(workload: Workload) -> int:
    """The priority of the spec, 0 when unset."""
    return workload.spec.priority or 0


def boost(workload: Workload) -> int:
    """What the annotation adds to the priority, 0 without one. Raises BoostError."""
    text = workload.metadata.annotation(BOOST)
    if not text:
        return 0
    value = integer(text)
    if value is None or value not in _INT32:
        raise BoostError(f"annotation {BOOST}: {text!r} is not a 32-bit integer such as -100")
    return value


def effective_priority(workload: Workload, *, boosting: bool) -> int:
    """What every comparison of priorities uses. May leave the 32-bit range.

    `boosting` is the feature gate; an unreadable boost counts as none.
    """
    if not boosting:
        return priority(workload)
    try:
        return priority(workload) + boost(workload)
    except BoostError:
        return priority(workload)


def pod_priority(
    name: str, classes: Mapping[str, PriorityClass]
) -> tuple[PriorityClassRef | None, int]:
    """Reference and value of a PriorityClass. Without a name, of the global default, if any.

    Kubernetes takes the lowest of several global defaults. Raises ClassMissing.
    """
    if not name:
        defaults = [each for each in classes.values() if each.global_default]
        if not defaults:
            return None, 0
        name = min(defaults, key=lambda each: each.value).metadata.name
    found = classes.get(name)
    if found is None:
        raise ClassMissing(f'priority class "{name}" not found')
    return PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=name), found.value


def workload_priority(
    name: str, classes: Mapping[str, WorkloadPriorityClass]
) -> tuple[PriorityClassRef, int]:
    """Reference and value of a WorkloadPriorityClass. Raises ClassMissing."""
    found = classes.get(name)
    if found is None:
        raise ClassMissing(f'workload priority class "{name}" not found')
    return PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=name), (
        found.value
    )
