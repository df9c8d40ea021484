# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: the chain of Workloads, one a size, that stands for one job growing and shrinking.

Growth makes a new slice that replaces the running one once it has quota of its own; shrinking
edits the counts in place. So at most two slices live: the one that holds quota, and its successor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from kuota.api.base import Key, ObjectMeta, is_true
from kuota.api.gates import Gate, Gates
from kuota.api.workload import PodSet, Workload
from kuota.engine.model import Struct

ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
REPLACED = "WorkloadSliceReplaced"
OUT_OF_SYNC = "OutOfSync"

Counts = Mapping[str, int]


def elastic(meta: ObjectMeta | None, gates: Gates) -> bool:
    """Whether a job, or the workload made from it, is to be sliced."""
    if meta is None or not gates.on(Gate.ElasticJobsViaWorkloadSlices):
        return False
    return meta.annotation(ELASTIC) == "true"


def replaces(obj: Workload) -> Key | None:
    """The slice that this one takes over from. A bare name is one of its own namespace."""
    named = obj.metadata.annotation(REPLACES)
    if not named:
        return None
    key = Key.parse(named)
    return key if key.namespace else Key(obj.metadata.namespace, key.name)


def counts(pod_sets: Iterable[PodSet] | None) -> dict[str, int]:
    """How many pods each pod set has."""
    return {each.name: each.count for each in pod_sets or ()}


def resized(obj: Workload, new: Counts) -> Workload:
    """The workload with those counts. Pod sets that are not named keep theirs."""
    pod_sets = obj.spec.pod_sets
    if pod_sets is None:
        return obj
    changed = [replace(each, count=new.get(each.name, each.count)) for each in pod_sets]
    return replace(obj, spec=replace(obj.spec, pod_sets=changed))


def fewer(some: Counts, others: Counts) -> bool:
    """Whether any pod set that both know is smaller in the first."""
    return any(count < others.get(name, 0) for name, count in some.items())


def scaled_down(old: Counts, new: Counts) -> bool:
    """Whether something shrank and nothing grew. Up here and down there counts as growth."""
    return fewer(new, old) and not fewer(old, new)


class Live(Struct):
    """Which slices of a job stay: `selected` speaks for the job, `running` holds quota meanwhile.

    `running` is set only while `selected` waits to replace it. `finished` are all the others, each
    with the reason to finish it for.
    """

    selected: Workload | None = None
    running: Workload | None = None
    finished: tuple[tuple[Workload, str], ...] = ()


def latest_active(slices: Iterable[Workload]) -> Workload | None:
    """The slice whose pods may run: the newest that holds quota and is not being evicted."""
    return _newest([each for each in slices if _holds(each) and not _evicted(each)])


def live_slices(slices: Collection[Workload]) -> Live:
    """The slices to keep of those not finished; none when all of them are being evicted."""
    staying = [each for each in slices if not _evicted(each)]
    running = _unsuperseded([each for each in staying if _holds(each)])
    selected: Workload | None
    if running is None:
        selected = _newest(staying)
    else:
        waiting = [each for each in staying if not _holds(each)]
        successors = [each for each in waiting if replaces(each) == running.key]
        selected = _newest(successors) or running
    kept = {each.key for each in (selected, running) if each is not None}
    claimed = {replaces(each) for each in slices}
    return Live(
        selected=selected,
        running=running if running is not selected else None,
        finished=tuple(
            (each, REPLACED if each.key in claimed else OUT_OF_SYNC)
            for each in slices
            if each.key not in kept
        ),
    )


def _unsuperseded(holders: list[Workload]) -> Workload | None:
    """The newest that no other of them replaces: creation times are too coarse to tell a chain."""
    claimed = {replaces(each) for each in holders}
    return _newest([each for each in holders if each.key not in claimed] or holders)


def _newest(slices: list[Workload]) -> Workload | None:
    return max(slices, key=_age, default=None)


def _age(obj: Workload) -> tuple[float, str]:
    created = obj.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, obj.metadata.name)


def _holds(obj: Workload) -> bool:
    return is_true(obj.status.conditions, "QuotaReserved")


def _evicted(obj: Workload) -> bool:
    return is_true(obj.status.conditions, "Evicted")
