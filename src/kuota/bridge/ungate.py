# SPDX-License-Identifier: Apache-2.0
"""Which gates are removed from the pods of an admitted Workload.

Two gates hold pods back. Pods of elastic jobs wait for quota, because a job may create the pods of
its next size before that size is admitted. Pods that are placed by topology wait for their node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kuota.api.podset import TOPOLOGY_GATE
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.engine.model import Struct

from .draft import StoredWorkload
from .job_pass.slices import counts_of
from .topology_ungate import assigned, places
from .workload_pods import GateRemoval, WorkloadPod

_PROVISIONED = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "autoscaling.x-k8s.io/provisioning-class-name",
)
"""The annotations of admission checks that pods need before they are scheduled."""


class ChecksDisagree(ValueError):
    """Two admission checks require different values. No pod can satisfy both."""


def releases(
    active: StoredWorkload, pods: Iterable[WorkloadPod], *, elastic: bool, topology: bool
) -> list[GateRemoval]:
    """Return which pods of an admitted Workload lose gates, lowest names first.

    `elastic` and `topology` say which gates are removed. A pod that exceeds the quota of an elastic
    job is not assigned a node, so both decisions agree on the pods. Raises ChecksDisagree and
    OffsetInvalid.
    """
    live = sorted((each for each in pods if not each.ended), key=lambda each: each.key.name)
    quota = {each.pod.key: each for each in _within_quota(active, live)} if elastic else {}
    found = dict(quota)
    if topology and assigned(active.obj):
        held = (each for each in live if elastic and each.gated(ELASTIC_JOB))
        exceeding = {each.key for each in held if each.key not in quota}
        rest = [each for each in live if each.key not in exceeding]
        for pod, selector in places(active.obj, rest):
            placed = GateRemoval(pod=pod, gates=frozenset({TOPOLOGY_GATE}), node_selector=selector)
            found[pod.key] = quota[pod.key].joined(placed) if pod.key in quota else placed
    return [found[each.key] for each in live if each.key in found]


def _within_quota(active: StoredWorkload, live: Sequence[WorkloadPod]) -> Iterator[GateRemoval]:
    """Yield which pods of an elastic job its newest slice with quota covers.

    A pod that an earlier admission has tied to other nodes stays gated.
    """
    for name, count in counts_of(active).items():
        members = [each for each in live if each.pod_set == name]
        room = count - sum(not each.gated(ELASTIC_JOB) for each in members)
        updates = _updates(active, name)
        waiting = [e for e in members if e.gated(ELASTIC_JOB) and _compatible(e, updates)]
        for pod in waiting[: max(0, room)]:
            yield GateRemoval(
                pod=pod,
                gates=frozenset({ELASTIC_JOB}),
                annotations=updates.annotations,
                node_selector=updates.node_selector,
            )


class _Updates(Struct):
    annotations: dict[str, str]
    node_selector: dict[str, str]


def _updates(active: StoredWorkload, pod_set: str) -> _Updates:
    """Return what the checks of a slice require of the pods of a pod set."""
    found = _Updates(annotations={}, node_selector={})
    for update in _pod_set_updates(active, pod_set):
        provisioned = {k: v for k, v in update[0].items() if k in _PROVISIONED}
        _merge(found.annotations, provisioned, pod_set)
        _merge(found.node_selector, update[1], pod_set)
    return found


def _pod_set_updates(
    active: StoredWorkload, pod_set: str
) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    for check in active.obj.status.admission_checks or ():
        for update in check.pod_set_updates or ():
            if update.name == pod_set:
                yield update.annotations or {}, update.node_selector or {}


def _merge(into: dict[str, str], added: Mapping[str, str], pod_set: str) -> None:
    for key, value in added.items():
        if into.setdefault(key, value) != value:
            raise ChecksDisagree(
                f"admission checks require {key}={into[key]} and {key}={value} of the pods of "
                f"pod set {pod_set}"
            )


def _compatible(pod: WorkloadPod, updates: _Updates) -> bool:
    return _agree(pod.annotations, updates.annotations) and _agree(
        pod.node_selector, updates.node_selector
    )


def _agree(some: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(some.get(key, value) == value for key, value in others.items())
