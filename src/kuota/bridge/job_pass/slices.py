# SPDX-License-Identifier: Apache-2.0
"""The slices of an elastic job: Workloads that replace one another as the job is resized.

A job that grows while it has quota gets a second slice, which replaces the first one when it is
admitted. All slices of such a chain carry the name of the first one. At most two slices of a chain
stay open: the one with quota, and its pending replacement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kuota.api.base import Json, Key, condition
from kuota.api.podset import SLICE_ANNOTATION, WORKLOAD_ANNOTATION
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.api.rules.workload_status import pod_set_counts
from kuota.engine.model import Struct

from ..draft import StoredWorkload
from ..inbound_workload import REPLACED, REPLACES, replaces
from ..jobs.template_kind import restored_template

OUT_OF_SYNC = "OutOfSync"
CLOSED = frozenset({REPLACED, OUT_OF_SYNC})
"""Why slices are finished before their job is."""

Counts = Mapping[str, int]


def counts_of(stored: StoredWorkload) -> dict[str, int]:
    """Return the number of pods of each pod set."""
    return pod_set_counts(stored.json)


def fewer(some: Counts, others: Counts) -> bool:
    """Whether a pod set that both have is smaller in `some`."""
    return any(name in others and count < others[name] for name, count in some.items())


def scaled_down(old: Counts, new: Counts) -> bool:
    """Whether some pod set shrinks, and none grows."""
    return fewer(new, old) and not fewer(old, new)


def resized(pod_sets: object, counts: Counts) -> list[Json]:
    """Return the pod sets with these counts. Those without a count in `counts` keep theirs."""
    return [
        each | ({"count": counts[name]} if (name := text(each.get("name"))) in counts else {})
        for each in map(mapping, elements(pod_sets))
    ]


def chain_name(stored: StoredWorkload) -> str:
    """Return the name of the first slice of a chain, which identifies the chain."""
    return stored.obj.metadata.annotation(SLICE_ANNOTATION) or stored.key.name


def replacement_annotations(replaced: StoredWorkload) -> dict[str, str]:
    """Return the annotations of the slice that replaces another one."""
    return {SLICE_ANNOTATION: chain_name(replaced), REPLACES: str(replaced.key)}


def end_reason(stored: StoredWorkload) -> str:
    """Return why a slice is finished; "" if it is not."""
    finished = condition(stored.obj.status.conditions, "Finished")
    return finished.reason if finished is not None and stored.true("Finished") else ""


def closed(stored: StoredWorkload) -> bool:
    """Whether a slice is finished although its job may not be."""
    return end_reason(stored) in CLOSED


def closed_names(workloads: Iterable[StoredWorkload]) -> set[str]:
    """Return the names of closed slices, which no other slice can have."""
    return {each.key.name for each in workloads if closed(each)}


def unfinished(slices: Iterable[StoredWorkload]) -> list[StoredWorkload]:
    """Return the open slices, oldest first."""
    return sorted((each for each in slices if not each.true("Finished")), key=_age)


def _age(stored: StoredWorkload) -> tuple[float, str]:
    created = stored.obj.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0, stored.obj.metadata.uid


def latest_active(slices: Iterable[StoredWorkload]) -> StoredWorkload | None:
    """Return the newest open slice that has quota and is not evicted: it defines the capacity."""
    return next((each for each in reversed(unfinished(slices)) if _has_quota(each)), None)


def _has_quota(stored: StoredWorkload) -> bool:
    return stored.reserved and not stored.true("Evicted")


class SliceChain(Struct):
    """The open slices of a job.

    `selected` is the one whose size follows the job. `charged` has quota and is not evicted; it is
    the selected slice, or the one that the selected slice is going to replace. All others are
    `surplus` and have to be finished, each with a reason.
    """

    selected: StoredWorkload | None = None
    charged: StoredWorkload | None = None
    surplus: tuple[tuple[StoredWorkload, str], ...] = ()


def normalized(slices: Sequence[StoredWorkload]) -> SliceChain:
    """Decide which of the open slices, given oldest first, remain. A single slice always does."""
    if not slices:
        return SliceChain()
    if len(slices) == 1:
        only = slices[0]
        return SliceChain(selected=only, charged=only if _has_quota(only) else None)
    live = [each for each in slices if not each.true("Evicted")]
    successors = _successors(live)
    heads = [each for each in live if each.reserved and not _reserved(successors.get(each.key))]
    charged = heads[-1] if heads else None
    pending = successors.get(charged.key) if charged is not None else None
    selected = pending or charged or (live[-1] if live else None)
    surplus = tuple(
        (each, REPLACED if each.key in successors else OUT_OF_SYNC)
        for each in slices
        if each is not selected and each is not charged
    )
    return SliceChain(selected=selected, charged=charged, surplus=surplus)


def _successors(live: Iterable[StoredWorkload]) -> dict[Key, StoredWorkload]:
    """Return the slice that replaces each slice: of several claims, one with quota wins."""
    found: dict[Key, StoredWorkload] = {}
    for each in live:
        replaced = replaces(each.obj)
        if replaced is not None and (replaced not in found or _preferred(each, found[replaced])):
            found[replaced] = each
    return found


def _preferred(stored: StoredWorkload, other: StoredWorkload) -> bool:
    return stored.reserved and not other.reserved


def _reserved(stored: StoredWorkload | None) -> bool:
    return stored is not None and stored.reserved


def without_injection(pod_sets: Iterable[Json], charged: StoredWorkload) -> list[Json]:
    """Return the pod sets of a running job without what the admission of a slice injected.

    A replacement can then be admitted with other flavors after it was evicted. Only the annotations
    that identify the chain remain, as in Kueue.
    """
    original = {
        text(each.get("name")): mapping(each.get("template"))
        for each in map(mapping, elements(child(charged.json, "spec").get("podSets")))
    }
    return [
        each | {"template": _restored(mapping(each.get("template")), original[name])}
        if (name := text(each.get("name"))) in original
        else each
        for each in pod_sets
    ]


def _restored(template: Json, original: Json) -> Json:
    result = restored_template(template, original)
    given = string_map(child(template, "metadata").get("annotations"))
    stamps = {key: given[key] for key in (WORKLOAD_ANNOTATION, SLICE_ANNOTATION) if key in given}
    if not stamps:
        return result
    meta = child(result, "metadata")
    return result | {"metadata": meta | {"annotations": child(meta, "annotations") | stamps}}
