# SPDX-License-Identifier: Apache-2.0
"""Validates the rules of the API server that combine several fields of one object.

A CRD contains them as CEL expressions (`kuota.api.schema.cel`). Here they are functions, so that
Kuota needs no CEL engine. `tests/api/test_cel_rules.py` checks that both reject the same objects.
If Kueue's webhook has the same rule, both use the same path, so that the fault is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..base import Json
from ..faults import FieldError, invalid
from ..v1beta1 import V1BETA1
from .cluster_queue import fungibility_faults, preemption_faults
from .quota import each_flavor
from .report import child, elements, integer, mapping, objects, text, texts
from .workload_status import pod_set_updates, reserved

HOSTNAME = "kubernetes.io/hostname"
_ASSIGNMENTS = "status.admission.podSetAssignments"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KIND_BY_GROUP = {
    "scheduling.k8s.io": "PriorityClass",
    "kueue.x-k8s.io": "WorkloadPriorityClass",
}


def relation_faults(obj: Json) -> Iterator[FieldError]:
    """Yield the faults of a defaulted object, by the rules of its own version."""
    relations = _RELATIONS_V1BETA1 if obj.get("apiVersion") == V1BETA1 else _RELATIONS
    rules = relations.get(text(obj.get("kind")))
    if rules is not None:
        yield from rules(obj)


def _workload(obj: Json) -> Iterator[FieldError]:
    spec, status = child(obj, "spec"), child(obj, "status")
    yield from _priority(spec, "priorityClassRef")
    yield from _class_kind(spec.get("priorityClassRef"))
    yield from _workload_both(spec, status, obj)
    assigned = child(status, "admission").get("podSetAssignments")
    for path, each in objects(assigned, _ASSIGNMENTS):
        at = f"{path}.topologyAssignment"
        yield from _topology_assignment(child(each, "topologyAssignment"), at)


def _workload_v1beta1(obj: Json) -> Iterator[FieldError]:
    spec, status = child(obj, "spec"), child(obj, "status")
    yield from _priority(spec, "priorityClassName")
    yield from _workload_both(spec, status, obj)


def _workload_both(spec: Json, status: Json, obj: Json) -> Iterator[FieldError]:
    for path, each in objects(spec.get("podSets"), "spec.podSets"):
        least, count = integer(each.get("minCount")), integer(each.get("count"))
        if least is not None and count is not None and least > count:
            message = f"minCount {least} is above count {count}"
            yield invalid(path, least, message, f"use {count} or less")
    if reserved(obj) and status.get("admission") is not None:
        yield from _assignment_count(spec, child(status, "admission"))
    nominated = elements(status.get("nominatedClusterNames"))
    if status.get("clusterName") is not None and nominated:
        message = "clusterName and nominatedClusterNames exclude each other"
        fix = "clear nominatedClusterNames when the cluster is chosen"
        yield invalid("status", status.get("clusterName"), message, fix)
    for path, update in pod_set_updates(status):
        yield from _tolerations(update.get("tolerations"), f"{path}.tolerations")


def _assignment_count(spec: Json, admission: Json) -> Iterator[FieldError]:
    assigned = elements(admission.get("podSetAssignments"))
    pod_sets = elements(spec.get("podSets"))
    if len(assigned) != len(pod_sets) or not pod_sets:
        message = f"has {len(assigned)} entries for {len(pod_sets)} pod sets"
        yield invalid(_ASSIGNMENTS, len(assigned), message, "assign each pod set once")


def _priority(spec: Json, field: str) -> Iterator[FieldError]:
    if spec.get(field) is not None and spec.get("priority") is None:
        message = f"{field} requires spec.priority"
        yield invalid("spec", None, message, "set spec.priority to the value of the class")


def _class_kind(ref: Any) -> Iterator[FieldError]:
    group, kind = text(mapping(ref).get("group")), text(mapping(ref).get("kind"))
    if group in _KIND_BY_GROUP and kind and kind != _KIND_BY_GROUP[group]:
        fix = f"with group {group} use kind {_KIND_BY_GROUP[group]}"
        yield invalid("spec.priorityClassRef", ref, f"group {group} has no kind {kind}", fix)


def _topology_assignment(assignment: Json, path: str) -> Iterator[FieldError]:
    levels = len(elements(assignment.get("levels")))
    for index, each in enumerate(map(mapping, elements(assignment.get("slices")))):
        at, domains = f"{path}.slices[{index}]", integer(each.get("domainCount"))
        values = elements(each.get("valuesPerLevel"))
        if len(values) != levels:
            message = f"slice {index} has {len(values)} valuesPerLevel for {levels} levels"
            yield invalid(path, len(values), message)
        counts = child(each, "podCounts")
        yield from _one_of(each.get("podCounts"), ("universal", "individual"), f"{at}.podCounts")
        lists = [("podCounts.individual", counts.get("individual"))]
        for number, level in enumerate(values):
            names = ("universal", "individual")
            yield from _one_of(level, names, f"{at}.valuesPerLevel[{number}]")
            roots = child(level, "individual").get("roots")
            lists.append((f"valuesPerLevel[{number}].individual.roots", roots))
        for name, entries in lists:
            if isinstance(entries, list) and len(entries) != domains:
                message = f"{name} has {len(entries)} entries for {domains} domains"
                yield invalid(at, len(entries), message)


def _one_of(value: Any, names: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """Yield a fault unless exactly one of the fields is set. An absent value is not checked."""
    if not isinstance(value, dict):
        return
    given = [name for name in names if value.get(name) is not None]
    if len(given) != 1:
        found = "both are" if given else "none is"
        yield invalid(path, given, f"exactly one of {' and '.join(names)} must be set, {found}")


def _cluster_queue(obj: Json, cohort: str = "cohortName") -> Iterator[FieldError]:
    spec = child(obj, "spec")
    yield from _quota_counts(spec)
    if spec.get(cohort) is None:
        for _, _, path, flavor in each_flavor(spec):
            yield from _borrowing(flavor.get("resources"), f"{path}.resources", cohort)
    yield from preemption_faults(spec)
    yield from fungibility_faults(spec)


def _cohort(obj: Json) -> Iterator[FieldError]:
    yield from _quota_counts(child(obj, "spec"))


def _quota_counts(spec: Json) -> Iterator[FieldError]:
    """Yield a fault for each flavor whose quotas do not match the covered resources in number."""
    for path, group, at, flavor in each_flavor(spec):
        covered = elements(group.get("coveredResources"))
        resources = elements(flavor.get("resources"))
        if resources and len(resources) != len(covered):
            name = text(flavor.get("name")) or at
            message = f"flavor {name} has {len(resources)} quota(s) for {len(covered)} resource(s)"
            fix = f"give it a quota for each of: {', '.join(texts(covered))}"
            yield invalid(path, len(resources), message, fix)


def _borrowing(resources: Any, path: str, cohort: str) -> Iterator[FieldError]:
    for at, each in objects(resources, path):
        if each.get("borrowingLimit") is not None:
            message = f"has no effect without spec.{cohort}"
            fix = f"set spec.{cohort}, or remove borrowingLimit"
            yield invalid(f"{at}.borrowingLimit", each["borrowingLimit"], message, fix)


def _resource_flavor(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    if spec.get("topologyName") is not None and not child(spec, "nodeLabels"):
        message = "topologyName needs at least one nodeLabel, to tell which nodes are meant"
        yield invalid("spec", spec.get("topologyName"), message, "set spec.nodeLabels")
    for path, each in objects(spec.get("nodeTaints"), "spec.nodeTaints"):
        effect = text(each.get("effect"))
        if each.get("effect") is not None and effect not in _EFFECTS:
            yield invalid(path, effect, f'"{effect}" is not a taint effect', _one(_EFFECTS))
    yield from _tolerations(spec.get("tolerations"), "spec.tolerations")


def _one(options: tuple[str, ...]) -> str:
    return f"use one of: {', '.join(options)}"


def _tolerations(tolerations: Any, path: str) -> Iterator[FieldError]:
    for at, each in objects(tolerations, path):
        for message, fix in _toleration_complaints(each):
            yield invalid(at, each, message, fix)


def _toleration_complaints(each: Json) -> Iterator[tuple[str, str]]:
    operator, effect = text(each.get("operator")), text(each.get("effect"))
    if each.get("key") is None and operator != "Exists":
        yield "a toleration without key matches every taint", "set operator to Exists, or a key"
    if each.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield "tolerationSeconds needs effect NoExecute", "set the effect, or remove the seconds"
    if each.get("operator") is not None and operator not in ("Equal", "Exists"):
        yield f'"{operator}" is not a toleration operator', _one(("Equal", "Exists"))
    if operator == "Exists" and each.get("value") is not None:
        yield "operator Exists takes no value", "remove the value, or use operator Equal"
    if each.get("effect") is not None and effect not in _EFFECTS:
        yield f'"{effect}" is not a taint effect', _one(_EFFECTS)


def level_names(obj: Json) -> list[str]:
    """Return the node labels of a Topology, from the highest level to the lowest."""
    levels = map(mapping, elements(child(obj, "spec").get("levels")))
    return [text(each.get("nodeLabel")) for each in levels]


def _topology(obj: Json) -> Iterator[FieldError]:
    names = level_names(obj)
    yield from _repeated(names, "level", "spec.levels")
    if HOSTNAME in names and names[-1] != HOSTNAME:
        message = f"{HOSTNAME} is not the last level, and nothing is narrower than a node"
        yield invalid("spec.levels", names, message, "move it to the end")


def _multikueue_config(obj: Json) -> Iterator[FieldError]:
    yield from _repeated(texts(child(obj, "spec").get("clusters")), "cluster", "spec.clusters")


def _repeated(names: list[str], what: str, path: str) -> Iterator[FieldError]:
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        yield invalid(path, names, f"{what} {repeated} is listed twice", "list it once")


def _multikueue_cluster(obj: Json) -> Iterator[FieldError]:
    source = child(obj, "spec").get("clusterSource")
    yield from _one_of(source, ("kubeConfig", "clusterProfileRef"), "spec.clusterSource")


_RELATIONS: dict[str, Callable[[Json], Iterator[FieldError]]] = {
    "Workload": _workload,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "ResourceFlavor": _resource_flavor,
    "Topology": _topology,
    "MultiKueueConfig": _multikueue_config,
    "MultiKueueCluster": _multikueue_cluster,
}
_RELATIONS_V1BETA1: dict[str, Callable[[Json], Iterator[FieldError]]] = {
    "Workload": _workload_v1beta1,
    "ClusterQueue": partial(_cluster_queue, cohort="cohort"),
    "Cohort": _cohort,
    "ResourceFlavor": _resource_flavor,
    "Topology": _topology,
}
