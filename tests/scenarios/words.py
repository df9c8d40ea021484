# SPDX-License-Identifier: Apache-2.0
"""The syntax of objects in scenarios: a name and words like `gpu=8` or `cohort=eng`.

A quota is `gpu=8`, with limits `gpu=8,borrow:2,lend:4`, of a flavor `spot.gpu=4`. Pods of another
kind follow after a `+`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from build import cohort, flavor, job, key, pod_set, queue, scheduling_hash
from kuota.api.base import LabelSelector
from kuota.api.core import PodSpec, PodTemplateSpec, Taint, Toleration
from kuota.api.resources import rescaled
from kuota.engine.model import (
    CheckRule,
    ClusterQueue,
    Cohort,
    ConcurrentAdmission,
    Eviction,
    PodSet,
    Quota,
    ResourceFlavor,
    Workload,
)

Words = dict[str, str]


def words(parts: list[str]) -> Words:
    """`a=1 b` is {"a": "1", "b": ""}."""
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _taken(given: Words, known: dict[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """The words that have a meaning of their own, taken out and read."""
    found = {}
    for word, (field, read) in known.items():
        if word in given:
            found[field] = read(given.pop(word))
    return found


def _quota(text: str) -> Quota:
    nominal, *limits = text.split(",")
    by_name = dict(limit.split(":") for limit in limits)
    borrow, lend = by_name.get("borrow"), by_name.get("lend")
    return Quota(int(nominal), int(borrow) if borrow else None, int(lend) if lend else None)


def _quotas(given: Words) -> dict[str, int | Quota]:
    return {name.replace(".", "/"): _quota(text) for name, text in given.items()}


def _checks(text: str) -> tuple[CheckRule, ...]:
    """`a` for all flavors, `a:spot` for one of them."""
    rules = (each.partition(":") for each in text.split(","))
    return tuple(
        CheckRule(name=name, flavors=frozenset([only] if only else [])) for name, _, only in rules
    )


def _selector(text: str) -> LabelSelector | None:
    if text == "nobody":
        return None
    name, _, value = text.partition(":")
    return LabelSelector(match_labels={name: value})


def _concurrent(text: str) -> ConcurrentAdmission:
    """`variants` moves to what is preferred, `variants=retain` does not."""
    retains = text == "retain"
    return ConcurrentAdmission(mode="RetainFirstAdmission") if retains else ConcurrentAdmission()


_OF_QUEUE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cohort": ("cohort", str),
    "within": ("within", str),
    "reclaim": ("reclaim", str),
    "borrow": ("borrow", lambda text: text == "LowerPriority"),
    "threshold": ("threshold", int),
    "strategy": ("strategy", str),
    "stop": ("stop_policy", str),
    "when-can-borrow": ("when_can_borrow", str),
    "when-can-preempt": ("when_can_preempt", str),
    "prefer": ("preference", str),
    "weight": ("weight", float),
    "checks": ("checks", _checks),
    "namespaces": ("namespace_selector", _selector),
    "variants": ("concurrent_admission", _concurrent),
}


def queue_of(name: str, given: Words) -> ClusterQueue:
    left = dict(given)
    fields = _taken(left, _OF_QUEUE)
    return queue(name, _quotas(left), **fields)


def cohort_of(name: str, given: Words) -> Cohort:
    left = dict(given)
    fields = _taken(left, {"parent": ("parent", str), "weight": ("weight", float)})
    return cohort(name, _quotas(left), **fields)


def flavor_of(name: str, given: Words) -> ResourceFlavor:
    taint = given.get("taint")
    labels = {k.removeprefix("label."): v for k, v in given.items() if k.startswith("label.")}
    return flavor(
        name, labels=labels, taints=(Taint(key=taint, effect="NoSchedule"),) if taint else ()
    )


_OF_PODS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "count": ("count", int),
    "min": ("min_count", int),
    "group": ("group", str),
}


def _pods(name: str, given: Words) -> PodSet:
    tolerated = given.pop("tolerate", "")
    selected = {k: given.pop(k) for k in list(given) if k.startswith("select.")}
    spec = PodSpec(
        tolerations=[Toleration(key=tolerated, operator="Exists")] if tolerated else None,
        node_selector={k.removeprefix("select."): v for k, v in selected.items()} or None,
    )
    fields = _taken(given, _OF_PODS)
    requests = {resource: int(amount) for resource, amount in given.items()}
    return pod_set(name, requests=requests, template=PodTemplateSpec(spec=spec), **fields)


def _states(text: str) -> dict[str, str]:
    return dict(each.split(":") for each in text.split(","))


def _eviction(text: str) -> Eviction:
    reason, _, at = text.partition(":")
    return Eviction(reason=reason, at=float(at))


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _states(text).items()}


_OF_WORKLOAD: dict[str, tuple[str, Callable[[str], Any]]] = {
    "priority": ("priority", int),
    "created": ("created", float),
    "active": ("active", lambda text: text == "yes"),
    "gates": ("closed_gates", lambda text: text == "closed"),
    "gated-by": ("gated_by", str),
    "checks": ("checks", _states),
    "requeued": ("requeued", lambda text: text == "yes"),
    "requeue-at": ("requeue_at", float),
    "replaces": ("replaces", key),
    "only": ("allowed_flavors", lambda text: frozenset([text])),
    "variant-of": ("parent_uid", str),
    "ready": ("pods_ready", lambda text: text == "yes"),
    "reclaimable": ("reclaimable", _counts),
    "evicted": ("evicted", _eviction),
}


def changed(old: Workload, given: Words) -> Workload:
    """The workload with these words changed, and what follows from them."""
    new = replace(old, **_taken(given, _OF_WORKLOAD))
    pod_sets = tuple(_less(each, new.reclaimable.get(each.name, 0)) for each in new.pod_sets)
    return replace(new, pod_sets=pod_sets, scheduling_hash=scheduling_hash(pod_sets, new.priority))


def _less(pods: PodSet, done: int) -> PodSet:
    """The pods without those that are done."""
    left = pods.count - done
    return replace(pods, pods=left, requests=rescaled(pods.requests, pods.pods, left))


def job_of(queue_name: str, name: str, parts: list[str]) -> Workload:
    kinds: list[list[str]] = [[]]
    for part in parts:
        if part == "+":
            kinds.append([])
        else:
            kinds[-1].append(part)
    first, *rest = (words(each) for each in kinds)
    fields = _taken(first, _OF_WORKLOAD)
    pod_sets = [_pods("main", first)]
    pod_sets += [_pods(f"more{number}", each) for number, each in enumerate(rest, start=1)]
    return job(name, *pod_sets, queue=queue_name, **fields)
