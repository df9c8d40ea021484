# SPDX-License-Identifier: Apache-2.0
"""Adopts running pods, which have no Workload yet: the checks, and what is written.

A pod is mapped to a LocalQueue by rules, gets the labels of a managed pod, and a Workload that is
admitted to the first flavor of each resource. Quota is not checked: the pod runs already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError, Invalid, invalid, required
from kuota.api.gates import Gates
from kuota.api.kueue import ClusterQueue
from kuota.api.priority import ClassMissing
from kuota.api.quantity import written
from kuota.api.rules.job_common import QUEUE_NAME, queue_name
from kuota.api.rules.pod import MANAGED
from kuota.api.rules.report import child, mapping, string_map, text
from kuota.api.workload import Workload
from kuota.engine.model import Struct

from .conditions import Conditions
from .inbound_workload import AccountingContext
from .inbound_workload import workload as inbound_workload
from .job_pass.workload import PriorityClasses, workload
from .jobs.pod import PodKind

IMPORTED = "Imported"
_POD = PodKind()


class ImportFault(Exception):
    """Why a pod cannot be imported."""


class ImportRule(Struct):
    """Which pods go to a LocalQueue, or are skipped."""

    labels: Mapping[str, str] = {}
    priority_class: str = ""
    local_queue: str = ""
    skip: bool = False

    def matches(self, pod: Json) -> bool:
        own = string_map(child(pod, "metadata").get("labels"))
        named = text(child(pod, "spec").get("priorityClassName"))
        alike = all(own.get(key) == value for key, value in self.labels.items())
        return alike and self.priority_class in ("", named)


def parsed_rules(content: object) -> list[ImportRule]:
    """Return the rules of a mapping file, in order. Raises Invalid with all faults."""
    if not isinstance(content, list):
        raise Invalid([invalid("", content, "must be a list of rules", "begin with `- match:`")])
    faults = [fault for index, each in enumerate(content) for fault in _rule_faults(each, index)]
    if faults:
        raise Invalid(faults)
    return [_rule(each) for each in content]


def _rule_faults(rule: object, index: int) -> Iterator[FieldError]:
    at = f"[{index}]"
    if not isinstance(rule, dict):
        yield invalid(at, rule, "must be an object with match and toLocalQueue")
        return
    for name in sorted(set(rule) - {"match", "toLocalQueue", "skip"}):
        yield invalid(f"{at}.{name}", rule[name], "is unknown", "use match, toLocalQueue and skip")
    match = rule.get("match")
    labels = mapping(match).get("labels")
    if match is not None and not isinstance(match, dict):
        yield invalid(f"{at}.match", match, "must be an object")
    if labels is not None and string_map(labels) != labels:
        yield invalid(f"{at}.match.labels", labels, "must map texts to texts")
    if rule.get("skip") is not True and not text(rule.get("toLocalQueue")):
        yield required(f"{at}.toLocalQueue", "must name a LocalQueue", "or set skip: true")


def _rule(rule: Json) -> ImportRule:
    match = child(rule, "match")
    return ImportRule(
        labels=string_map(match.get("labels")),
        priority_class=text(match.get("priorityClassName")),
        local_queue=text(rule.get("toLocalQueue")),
        skip=rule.get("skip") is True,
    )


class ImportContext(Struct):
    """What an import depends on: its rules, and the objects that are stored."""

    rules: Sequence[ImportRule]
    local_queues: Mapping[Key, Json]
    cluster_queues: Mapping[str, ClusterQueue]
    flavors: frozenset[str]
    classes: PriorityClasses = PriorityClasses()
    labels: Mapping[str, str] = {}
    accounting: AccountingContext = AccountingContext()
    gates: Gates = Gates()


class PodImport(Struct):
    """What is written for one pod: its labels, its Workload, and the status of the Workload."""

    labels: Mapping[str, str]
    workload: Json
    status: Json


def imported(pod: Json, context: ImportContext, now: float) -> PodImport | None:
    """Return what is written for a pod; None if a rule skips it. Raises ImportFault."""
    rule = next((each for each in context.rules if each.matches(pod)), None)
    if rule is None:
        raise ImportFault("no rule matches its labels and its priority class")
    if rule.skip:
        return None
    queue = _cluster_queue(pod, rule.local_queue, context)
    labels = dict(context.labels) | {QUEUE_NAME: rule.local_queue, MANAGED: "true"}
    made = _workload(_labelled(pod, labels), context)
    return PodImport(labels=labels, workload=made, status=_admitted(made, queue, context, now))


def _cluster_queue(pod: Json, name: str, context: ImportContext) -> ClusterQueue:
    if queue_name(pod) not in ("", name):
        raise ImportFault(f"it is in LocalQueue {queue_name(pod)} already, not in {name}")
    local = context.local_queues.get(Key(text(child(pod, "metadata").get("namespace")), name))
    if local is None:
        raise ImportFault(f"LocalQueue {name} does not exist")
    target = text(child(local, "spec").get("clusterQueue"))
    queue = context.cluster_queues.get(target)
    if queue is None:
        raise ImportFault(f"ClusterQueue {target} of LocalQueue {name} does not exist")
    return queue


def _labelled(pod: Json, labels: Mapping[str, str]) -> Json:
    meta = child(pod, "metadata")
    return pod | {"metadata": meta | {"labels": child(meta, "labels") | dict(labels)}}


def _workload(pod: Json, context: ImportContext) -> Json:
    try:
        made = workload(_POD, pod, context.classes, context.gates)
    except ClassMissing as error:
        raise ImportFault(str(error)) from None
    meta = {name: value for name, value in made["metadata"].items() if name != "creationTimestamp"}
    return made | {"metadata": meta | {"labels": dict(context.labels) | (meta.get("labels") or {})}}


def _admitted(made: Json, queue: ClusterQueue, context: ImportContext, now: float) -> Json:
    """Return the status of the admitted Workload. Raises ImportFault if a flavor is missing."""
    obj = msgspec.convert(made, Workload)
    counted = inbound_workload(obj, context.accounting)
    if counted.faults:
        raise ImportFault("; ".join(counted.faults))
    (pod_set,) = counted.pod_sets
    requests = {name: amount for name, amount in pod_set.requests.items() if amount}
    flavors = {name: _flavor(name, queue, context) for name in requests}
    assignment = {
        "name": pod_set.name,
        "flavors": flavors,
        "resourceUsage": {name: written(amount, name) for name, amount in requests.items()},
        "count": 1,
    }
    name = queue.metadata.name
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    for type_ in ("QuotaReserved", "Admitted"):
        conditions.put(type_, True, IMPORTED, f"Imported into ClusterQueue {name}")
    return {
        "admission": {"clusterQueue": name, "podSetAssignments": [assignment]},
        "conditions": conditions.json(),
    }


def _flavor(resource: str, queue: ClusterQueue, context: ImportContext) -> str:
    """Return the first flavor of a resource."""
    name = queue.metadata.name
    for group in queue.spec.resource_groups or ():
        if resource in (group.covered_resources or ()) and group.flavors:
            found = group.flavors[0].name
            if found not in context.flavors:
                raise ImportFault(f"ResourceFlavor {found} of ClusterQueue {name} does not exist")
            return found
    raise ImportFault(f"ClusterQueue {name} has no quota for {resource}")
