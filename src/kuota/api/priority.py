# SPDX-License-Identifier: Apache-2.0
"""Computes the priority of a workload from its spec, its boost, and priority classes."""

from __future__ import annotations

from collections.abc import Mapping

from .core import PriorityClass
from .kueue import WorkloadPriorityClass
from .match import integer
from .workload import PriorityClassRef, Workload

BOOST = "kueue.x-k8s.io/priority-boost"
DEFAULT_CLASS = "default"
POD_CLASS = "PriorityClass"
WORKLOAD_CLASS = "WorkloadPriorityClass"

_INT32 = range(-(2**31), 2**31)


class BoostError(ValueError):
    """Raised if the boost annotation is not a 32-bit integer."""


class ClassMissing(LookupError):
    """Raised if a job names a priority class that does not exist. `kind` is the kind of class."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f'{kind} "{name}" not found')
        self.kind, self.name = kind, name


def priority(workload: Workload) -> int:
    """Return the priority of the spec, or 0 if it is unset."""
    return workload.spec.priority or 0


def boost(workload: Workload) -> int:
    """Return the boost of the annotation, or 0 if it is absent. Raises BoostError."""
    text = workload.metadata.annotation(BOOST)
    if not text:
        return 0
    value = integer(text)
    if value is None or value not in _INT32:
        raise BoostError(f"annotation {BOOST}: {text!r} is not a 32-bit integer such as -100")
    return value


def effective_priority(workload: Workload, *, boosting: bool) -> int:
    """Return the effective priority, which every comparison uses. It may exceed 32 bits.

    `boosting` is the state of the feature gate. An invalid boost is ignored.
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
    """Return the reference and value of a PriorityClass, or of the global default without a name.

    If there are several global defaults, the lowest applies, as in Kubernetes. Raises ClassMissing.
    """
    if not name:
        defaults = [each for each in classes.values() if each.global_default]
        if not defaults:
            return None, 0
        name = min(defaults, key=lambda each: each.value).metadata.name
    found = classes.get(name)
    if found is None:
        raise ClassMissing(POD_CLASS, name)
    return PriorityClassRef(group="scheduling.k8s.io", kind=POD_CLASS, name=name), found.value


def workload_priority(
    name: str, classes: Mapping[str, WorkloadPriorityClass]
) -> tuple[PriorityClassRef, int]:
    """Return the reference and value of a WorkloadPriorityClass. Raises ClassMissing."""
    found = classes.get(name)
    if found is None:
        raise ClassMissing(WORKLOAD_CLASS, name)
    return PriorityClassRef(group="kueue.x-k8s.io", kind=WORKLOAD_CLASS, name=name), found.value
