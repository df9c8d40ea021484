# SPDX-License-Identifier: Apache-2.0
"""The registry, JSON paths, ages, and table rows of pods."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.server.builtin_columns import restarts, word
from kuota.server.builtin_kinds import builtin_kinds
from kuota.server.columns import by_path, human
from kuota.server.crd import kind_of
from kuota.server.job_faults import cron_job_faults, job_spec_faults
from kuota.server.jsonpath import PathError, first, values
from kuota.server.kinds import preference
from kuota.server.pod_faults import spec_faults
from server.full_objects import DEFINITION
from server.served import NOW


def test_versions_are_preferred_as_kubernetes_does() -> None:
    found = ["v1beta1", "v2", "foo1", "v1", "v1alpha2", "v11beta2", "v1beta2", "v10"]
    assert [*("v10", "v2", "v1", "v11beta2", "v1beta2", "v1beta1", "v1alpha2", "foo1")] == sorted(
        found, key=preference
    )


def test_kinds_come_and_go() -> None:
    kinds = builtin_kinds()
    edition = kinds.edition
    kinds.add(kind_of(DEFINITION))
    found = kinds.find("x.io", "v1", "things")
    assert found is not None
    assert ("Thing", True) == (found[0].kind, found[1].status)
    assert kinds.edition > edition
    kinds.remove("things.x.io")
    assert kinds.find("x.io", "v1", "things") is None
    assert kinds.of_kind("batch", "Job") is kinds.get("jobs.batch")


def test_every_kind_can_be_stored_in_its_stored_version() -> None:
    for kind in builtin_kinds():
        assert kind.version(kind.stored) is not None
        for version in kind.versions:
            assert version.structure is not None


OBJECT: Json = {
    "a.b": 1,
    "spec": {"replicas": 2, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", [2]),
        ("spec.replicas", [2]),
        ("{.spec.replicas}", [2]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[*].v", [1, 2]),
        (".spec.list[9].n", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Other')].status", []),
        (".spec['replicas']", [2]),
        (r".a\.b", [1]),
        (".none.at.all", []),
    ],
)
def test_json_paths_lead_to_values(path: str, expected: list[Any]) -> None:
    assert expected == values(OBJECT, path)
    assert (expected or [None])[0] == first(OBJECT, path)


@pytest.mark.parametrize("path", [".a[?(@.b>1)]", ".a[", "..", ".a[x:y]"])
def test_json_paths_that_cannot_be_read_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        by_path("X", path)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds: float, expected: str) -> None:
    assert expected == human(seconds)


def pod_with(*states: Json, **fields: Any) -> Json:
    statuses = [{"name": f"c{at}", "state": state} for at, state in enumerate(states)]
    return {"metadata": {}, "spec": {}, "status": {"containerStatuses": statuses} | fields}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod_with(phase="Pending"), "Pending"),
        (pod_with({"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating"),
        (pod_with({"terminated": {"reason": "Completed", "exitCode": 0}}), "Completed"),
        (pod_with({"terminated": {"exitCode": 3}}), "ExitCode:3"),
        (pod_with({"terminated": {"signal": 9}}), "Signal:9"),
        (pod_with(phase="Failed", reason="Evicted"), "Evicted"),
        (pod_with(phase="Running") | {"metadata": {"deletionTimestamp": "x"}}, "Terminating"),
        (pod_with(phase="Pending") | {"spec": {"schedulingGates": [{}]}}, "SchedulingGated"),
        (pod_with(initContainerStatuses=[{"state": {"running": {}}}]), "Init:0/0"),
    ],
)
def test_one_word_says_how_a_pod_is(pod: Json, expected: str) -> None:
    assert expected == word(pod, NOW)


def test_restarts_tell_how_long_ago_the_last_was() -> None:
    ended = {"terminated": {"finishedAt": "2026-11-15T11:59:00Z"}}
    status = {"restartCount": 2, "lastState": ended}
    assert "2 (60s ago)" == restarts({"status": {"containerStatuses": [status]}}, NOW)


def cron(schedule: str, **spec: str) -> list[str]:
    """The fields of a CronJob with that schedule that are wrong."""
    container = {"name": "c", "image": "x"}
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    whole = {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": {"spec": job}}
    faults = cron_job_faults({"metadata": {"name": "c"}, "spec": whole | spec})
    return [each.path for each in faults if each.path in ("spec.schedule", "spec.timeZone")]


@pytest.mark.parametrize(
    "schedule",
    [
        *("* * * * *", "*/5 * * * *", "0 0 ? * MON-FRI", "1,3-5/2 */6 1 jan,DEC 7", "5/10 * * * *"),
        *("@daily", "@every 1h30m", "@every 90s"),
    ],
)
def test_schedules_are_taken(schedule: str) -> None:
    assert [] == cron(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        *("61 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *"),
        *("5-1 * * * *", "a * * * *", "1, * * * *", "* * * * XXX", "* * * *", "* * * * * *"),
        *("every day", "@dayly", "@every", "@every 0s", "@every x", "TZ=UTC 0 0 * * *"),
        *("٥ * * * *", "*/٥ * * * *", "1-٥ * * * *", "² * * * *", "@every ٥1h", "* * * * ſun"),
    ],
)
def test_nonsense_is_no_schedule(schedule: str) -> None:
    assert ["spec.schedule"] == cron(schedule)


def test_a_time_zone_must_be_one() -> None:
    assert [] == cron("0 9 * * *", timeZone="Europe/Berlin")
    for zone in ("Mars/Olympus", "", "../etc/passwd"):
        assert ["spec.timeZone"] == cron("0 9 * * *", timeZone=zone)


def affinity(strength: str, content: Any) -> Json:
    field = f"{strength}DuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {field: content}}}


def test_operators_of_node_affinity_must_be_known() -> None:
    for operator, faults in (("In", 0), ("Inn", 1)):
        term = {"matchExpressions": [{"key": "a", "operator": operator, "values": ["b"]}]}
        hard = affinity("required", {"nodeSelectorTerms": [term]})
        soft = affinity("preferred", [{"weight": 1, "preference": term}])
        for each in (hard, soft):
            spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}], **each}
            assert faults == len(list(spec_faults(spec)))


@pytest.mark.parametrize(
    ("field", "faults"),
    [
        *(("metadata.name", 0), ("metadata.labels['a']", 0), ("status.podIPs", 0)),
        *(("spec.foo", 1), ("metadata.labels", 1), ("", 1)),
    ],
)
def test_variables_come_from_fields_that_there_are(field: str, faults: int) -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": field}}}
    container = {"name": "c", "image": "x", "env": [variable]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    assert faults == len(list(spec_faults(spec)))


def test_a_rule_of_a_pod_failure_policy_needs_one_reason() -> None:
    codes, conditions = {"operator": "In", "values": [1]}, [{"type": "DisruptionTarget"}]
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    for rule, faults in (
        ({"onExitCodes": codes}, 0),
        ({"onPodConditions": conditions}, 0),
        ({}, 1),
        ({"onExitCodes": codes, "onPodConditions": conditions}, 1),
    ):
        policy = {"rules": [{"action": "FailJob", **rule}]}
        spec = {"completionMode": "NonIndexed", "template": template, "podFailurePolicy": policy}
        found = [each.path for each in job_spec_faults(spec, "spec")]
        assert faults == found.count("spec.podFailurePolicy.rules[0]")


@pytest.mark.parametrize(
    ("rule", "faults"),
    [
        *(({"succeededIndexes": text}, 0) for text in ("", "0", "0-2", "0,2", "0-1,2")),
        *(({"succeededIndexes": text}, 1) for text in ("x", "²", "-1", "1-", "0 ,1", "0--1")),
        *(({"succeededIndexes": text}, 1) for text in ("3", "0-3", "0-99999999999", "9" * 5000)),
        *(({"succeededIndexes": text}, 1) for text in ("1,0", "0,0", "0-1,1", "2-1", "0," * 32769)),
        *(({"succeededCount": count}, 0) for count in (1, 3)),
        *(({"succeededCount": count}, 1) for count in (0, -1, 4)),
        ({"succeededIndexes": "0-1", "succeededCount": 2}, 0),
        ({"succeededIndexes": "0-1", "succeededCount": 3}, 1),
        ({}, 1),
    ],
)
def test_rules_of_a_success_policy_name_indexes_of_the_job(rule: Json, faults: int) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"completionMode": "Indexed", "completions": 3, "template": template}
    spec["successPolicy"] = {"rules": [rule]}
    found = [each.path for each in job_spec_faults(spec, "spec")]
    assert faults == len([each for each in found if "spec.successPolicy.rules[0]" in each])


@pytest.mark.parametrize(("count", "faults"), [(0, 1), (1, 0), (20, 0), (21, 1)])
def test_a_success_policy_has_one_to_twenty_rules(count: int, faults: int) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"completionMode": "Indexed", "completions": 3, "template": template}
    spec["successPolicy"] = {"rules": [{"succeededCount": 1}] * count}
    found = [each.path for each in job_spec_faults(spec, "spec")]
    assert faults == found.count("spec.successPolicy.rules")
