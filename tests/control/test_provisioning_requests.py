# SPDX-License-Identifier: Apache-2.0
"""What a ProvisioningRequest asks for: merged pod sets, and templates with all requests."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.kueue import ProvisioningRequestConfigSpec
from kuota.bridge.draft import StoredWorkload
from kuota.control.checks.provisioning.pod_sets import (
    IDENTICAL_REQUIREMENTS,
    IDENTICAL_TEMPLATES,
    merged_pod_sets,
)
from kuota.control.checks.provisioning.request import template_object


def pod_set(name: str, count: int, *, metadata: Json | None = None, **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": metadata or {}, "spec": {"containers": [container]} | spec}
    return {"name": name, "count": count, "template": template}


def workload(*pod_sets: Json) -> StoredWorkload:
    sets = [{"name": each["name"], "count": each["count"]} for each in pod_sets]
    return StoredWorkload.of(
        {
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {"podSets": list(pod_sets)},
            "status": {"admission": {"clusterQueue": "cq", "podSetAssignments": sets}},
        }
    )


def merged(policy: str | None, *pod_sets: Json) -> list[tuple[str, int]]:
    found = merged_pod_sets(
        workload(*pod_sets), ProvisioningRequestConfigSpec(pod_set_merge_policy=policy)
    )
    return [(each.pod_set.name, each.count) for each in found]


LABELED = {"labels": {"role": "worker"}}
TERM = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"role": "worker"}}}
AFFINITY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@pytest.mark.parametrize(
    ("policy", "other", "alike"),
    [
        (None, {}, False),
        (IDENTICAL_TEMPLATES, {}, True),
        (IDENTICAL_TEMPLATES, {"metadata": LABELED}, False),
        (IDENTICAL_REQUIREMENTS, {"metadata": LABELED}, True),
        (IDENTICAL_REQUIREMENTS, {"priorityClassName": "high"}, True),
        (IDENTICAL_REQUIREMENTS, {"nodeSelector": {"pool": "a100"}}, False),
        (IDENTICAL_REQUIREMENTS, {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, False),
        (IDENTICAL_REQUIREMENTS, {"affinity": AFFINITY}, False),
        (IDENTICAL_REQUIREMENTS, {"resourceClaims": [{"name": "gpu"}]}, False),
        (IDENTICAL_REQUIREMENTS, {"resources": {"requests": {"cpu": "2"}}}, False),
    ],
)
def test_pod_sets_that_the_policy_compares_as_equal_are_merged(
    policy: str | None, other: dict[str, Any], alike: bool
) -> None:
    found = merged(policy, pod_set("leader", 1), pod_set("worker", 3, **other))
    assert ([("leader", 4)] if alike else [("leader", 1), ("worker", 3)]) == found


def test_requests_of_containers_are_compared_by_amount() -> None:
    same = {"name": "other", "resources": {"requests": {"cpu": "1000m"}, "limits": {"cpu": "4"}}}
    more = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    sets = [pod_set("a", 1), pod_set("b", 2, containers=[same]), pod_set("c", 4, containers=[more])]
    assert [("a", 3), ("c", 4)] == merged(IDENTICAL_REQUIREMENTS, *sets)


def test_a_template_requests_its_limits_also_those_of_the_whole_pod() -> None:
    limits = {"limits": {"cpu": "8", "memory": "1Gi"}, "requests": {"cpu": "2"}}
    inits = [{"name": "i", "resources": {"limits": {"cpu": "3"}}}]
    stored = workload(pod_set("main", 1, resources=limits, initContainers=inits))
    (found,) = merged_pod_sets(stored, ProvisioningRequestConfigSpec())
    made = template_object(stored.json, "ppt", found, {}, Gates())["template"]["spec"]
    assert {"cpu": "2", "memory": "1Gi"} == made["resources"]["requests"]
    assert {"cpu": "3"} == made["initContainers"][0]["resources"]["requests"]
    assert {"cpu": "1"} == made["containers"][0]["resources"]["requests"]
