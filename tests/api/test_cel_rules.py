# SPDX-License-Identifier: Apache-2.0
"""The CEL rules of the CRDs and the rules in Python reject the same objects for the same reasons.

An API server enforces the former; Kuota's embedded server and command line enforce the latter.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from api.cel_rules import AdmissionResponse, verdicts
from api.generated_objects import Objects
from kuota.api.base import Json
from kuota.api.defaults import schema_defaulted
from kuota.api.faults import FieldError
from kuota.api.kueue import KINDS
from kuota.api.rules import schema_faults
from kuota.api.schema import structural_schema

CASES = [(kind, version) for kind in KINDS for version in ("v1beta1", "v1beta2")]
TRIES = 1000

# The message of each CEL rule, and what Python says where that rule is violated: the path below
# the place of the rule, and the message.
EQUIVALENT = {
    "flavors must list as many resources as coveredResources": (
        "", r"flavor \w+ has \d+ quota\(s\) for \d+ resource\(s\)"),
    "borrowingLimit needs a cohort to borrow from": (
        r"\.resourceGroups.*\.borrowingLimit", r"has no effect without spec\.cohort"),
    "borrowingLimit needs a cohortName to borrow from": (
        r"\.resourceGroups.*\.borrowingLimit", r"has no effect without spec\.cohortName"),
    "preference only counts when whenCanBorrow and whenCanPreempt are TryNextFlavor": (
        r"\.preference", r"takes effect only if .*"),
    "borrowWithinCohort must be Never when reclaimWithinCohort is Never": (
        "", r"borrowWithinCohort\.policy \w+ needs reclaimWithinCohort"),
    "clusterQueue cannot be changed": ("", "cannot be changed once it is set"),
    "controllerName cannot be changed": ("", "cannot be changed once it is set"),
    "a flavor with a topologyName needs at least one node label": (
        "", "topologyName needs at least one nodeLabel.*"),
    "topologyName cannot be changed or removed once set": (
        "", "cannot be changed in topologyName once it is set"),
    "effect must be NoSchedule, PreferNoSchedule or NoExecute": (
        r"\[\d+\]", r'"\w*" is not a taint effect'),
    "operator must be Exists when key is absent, which means to match all values and all keys": (
        r"\[\d+\]", "a toleration without key matches every taint"),
    "effect must be NoExecute when tolerationSeconds is set": (
        r"\[\d+\]", "tolerationSeconds needs effect NoExecute"),
    "operator must be Equal or Exists": (r"\[\d+\]", r'"\w*" is not a toleration operator'),
    "value must be absent when operator is Exists": (
        r"\[\d+\]", "operator Exists takes no value"),
    "levels must be unique": ("", r"level \S+ is listed twice"),
    "kubernetes.io/hostname can only be the last level": (
        "", r"kubernetes\.io/hostname is not the last level.*"),
    "levels cannot be changed": ("", "cannot be changed in v1beta1"),
    "levels can only be changed while kubernetes.io/hostname is and stays the last one": (
        "", r"cannot be changed unless kubernetes\.io/hostname is last before and after"),
    "clusters must be unique": ("", r"cluster \w+ is listed twice"),
    "exactly one of kubeConfig and clusterProfileRef must be set": (
        "", "exactly one of kubeConfig and clusterProfileRef must be set.*"),
    "podSetAssignments must be as many as the podSets of the spec": (
        r"status\.admission\.podSetAssignments", r"has \d+ entries for \d+ pod sets"),
    "spec cannot be added or removed while quota is reserved": (
        "spec", r"cannot be changed \(added or removed\) while quota is reserved"),
    "priorityClassRef cannot be added or removed while quota is reserved": (
        r"spec\.priorityClassRef",
        r"cannot be changed \((added|removed)\) while quota is reserved"),
    "group of priorityClassRef cannot be changed while quota is reserved": (
        r"spec\.priorityClassRef\.group", "cannot be changed while quota is reserved"),
    "kind of priorityClassRef cannot be changed while quota is reserved": (
        r"spec\.priorityClassRef\.kind", "cannot be changed while quota is reserved"),
    "the name of a pod PriorityClass cannot be changed while quota is reserved": (
        r"spec\.(priorityClassRef\.name|priorityClassName)",
        "cannot be changed while quota is reserved"),
    "priorityClassSource cannot be changed while quota is reserved": (
        r"spec\.priorityClassSource", "cannot be changed while quota is reserved"),
    "queueName cannot be changed while quota is reserved": (
        r"spec\.queueName", "cannot be changed while quota is reserved"),
    "maximumExecutionTimeSeconds cannot be changed while admitted": (
        r"spec\.maximumExecutionTimeSeconds", "cannot be changed while admitted"),
    "priority must be set with priorityClassRef": (
        "", r"priorityClassRef requires spec\.priority"),
    "priority must be set with priorityClassName": (
        "", r"priorityClassName requires spec\.priority"),
    "scheduling.k8s.io goes with PriorityClass, kueue.x-k8s.io with WorkloadPriorityClass": (
        "", r"group \S+ has no kind \w+"),
    "minCount cannot be greater than count": ("", r"minCount \d+ is above count \d+"),
    "clusterName cannot be changed once set": (
        "", "cannot be changed in clusterName once it is set"),
    "clusterName and nominatedClusterNames exclude each other": (
        "", "clusterName and nominatedClusterNames exclude each other"),
    "each slice must have as many valuesPerLevel as there are levels": (
        "", r"slice \d+ has \d+ valuesPerLevel for \d+ levels"),
    "podCounts.individual must have domainCount entries": (
        "", r"podCounts\.individual has \d+ entries for \d+ domains"),
    "the roots of every level must have domainCount entries": (
        "", r"valuesPerLevel\[\d+\]\.individual\.roots has \d+ entries for \d+ domains"),
    "exactly one of universal and individual must be set": (
        "", "exactly one of universal and individual must be set.*"),
}  # fmt: skip


def _describes(fault: FieldError, verdict: AdmissionResponse) -> bool:
    below, message = EQUIVALENT[verdict.message]
    path = re.fullmatch(re.escape(verdict.path) + below, fault.path)
    return path is not None and re.fullmatch(message, fault.message) is not None


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_cel_and_python_reject_the_same_objects_for_the_same_reasons(
    kind: str, version: str
) -> None:
    schema, objects = structural_schema(kind, version), Objects(seed=1)
    reached: Counter[tuple[str, str, bool]] = Counter()
    for _ in range(TRIES):
        old = objects.new(schema, kind, version)
        new = objects.changed(schema, old)
        for stored in (None, old):
            full = (schema_defaulted(new), None if stored is None else schema_defaulted(stored))
            found = [*verdicts(schema, *full)]
            _agree([each for each in found if not each.holds], schema_faults(new, stored), new)
            reached.update((_place(each.path), each.message, each.holds) for each in found)
    missed = [
        (path, rule["message"], holds)
        for path, rule in _rules(schema)
        for holds in (True, False)
        if not reached[path, rule["message"], holds]
    ]
    assert [] == missed, "the generated objects do not reach these verdicts"


def _agree(violated: list[AdmissionResponse], faults: list[FieldError], obj: Json) -> None:
    for verdict in violated:
        assert any(_describes(each, verdict) for each in faults), (verdict, faults, obj)
    for fault in faults:
        assert any(_describes(fault, each) for each in violated), (fault, violated, obj)


def _place(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)


def _rules(schema: Json, path: str = "") -> list[tuple[str, Json]]:
    """Every rule of a schema with its place, found apart from the code that evaluates them."""
    found = [(path, rule) for rule in schema.get("x-kubernetes-validations", ())]
    for name, below in schema.get("properties", {}).items():
        found += _rules(below, f"{path}.{name}" if path else name)
    return found + (_rules(schema["items"], f"{path}[]") if "items" in schema else [])


def test_every_rule_has_an_equivalent_and_every_equivalent_a_rule() -> None:
    rules = {
        rule["message"]
        for kind, version in CASES
        for _, rule in _rules(structural_schema(kind, version))
    }
    assert rules == set(EQUIVALENT)


def test_rules_that_read_the_old_object_need_a_counterpart() -> None:
    rule = [{"rule": "self == oldSelf", "message": "frozen"}]
    schema: Json = {
        "properties": {
            "field": {"x-kubernetes-validations": rule},
            "keyed": {
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"properties": {"value": {"x-kubernetes-validations": rule}}},
            },
            "atomic": {"items": {"x-kubernetes-validations": rule}},
        }
    }
    old = {"field": 1, "keyed": [{"name": "a", "value": 1}, {"name": "b"}], "atomic": [1]}
    new = {
        "field": 2,
        "keyed": [{"name": "b", "value": 1}, {"name": "a", "value": 2}],
        "atomic": [2],
    }
    assert [] == [*verdicts(schema, new)]
    assert [
        AdmissionResponse("field", "frozen", False),
        AdmissionResponse("keyed[1].value", "frozen", False),
    ] == [*verdicts(schema, new, old)]


def test_an_evaluation_error_counts_as_a_violation() -> None:
    schema: Json = {"x-kubernetes-validations": [{"rule": "self.absent == 1", "message": "no"}]}
    assert [AdmissionResponse("", "no", False)] == [*verdicts(schema, {})]
