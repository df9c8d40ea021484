# SPDX-License-Identifier: Apache-2.0
"""Topology annotations of pod templates, beyond the recorded cases."""

from __future__ import annotations

import pytest

from api.rule_examples import job, said
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.rules import job_faults, pod_faults
from kuota.api.rules.topology import topology_faults

PREFIX = "kueue.x-k8s.io/"
REQUIRED, PREFERRED = "podset-required-topology", "podset-preferred-topology"
LEVEL, SIZE = "podset-slice-required-topology", "podset-slice-size"
LAYERS, GROUP = "podset-slice-required-topology-constraints", "podset-group-name"
TWO = '[{"topology":"rack","size":4},{"topology":"host","size":2}]'


def metadata(annotations: dict[str, str]) -> Json:
    return {"annotations": {PREFIX + key: value for key, value in annotations.items()}}


def at(key: str, rest: str = "") -> str:
    return f"m.annotations[{PREFIX}{key}]{rest}"


CASES = [
    ({LAYERS: TWO, LEVEL: "rack"}, {(at(LAYERS), "Forbidden"), (at(SIZE), "Required")}),
    ({LAYERS: TWO, SIZE: "2"}, {(at(LAYERS), "Forbidden"), (at(SIZE), "Forbidden")}),
    ({LAYERS: "[]"}, {(at(LAYERS), "Invalid")}),
    ({LAYERS: "[{},{},{},{}]"}, {(at(LAYERS), "Invalid")}),
    ({LAYERS: '[{"topology":"rack","size":"4"}]'}, {(at(LAYERS), "Invalid")}),
    ({LAYERS: '[{"topology":"rack","size":4000000000}]'}, {(at(LAYERS), "Invalid")}),
    ({LAYERS: "[null]"}, {(at(LAYERS, "[0].topology"), "Invalid"),
                          (at(LAYERS, "[0].size"), "Invalid")}),
    ({LAYERS: '[{"topology":"a","size":-3},{"topology":"b","size":2}]'},
     {(at(LAYERS, "[0].size"), "Invalid"), (at(LAYERS, "[1].size"), "Invalid")}),
    ({LAYERS: '[{"topology":"rack","size":9}]', LEVEL: "rack", SIZE: "9"},
     {(at(LAYERS), "Forbidden"), (at(LAYERS), "Invalid"), (at(SIZE), "Invalid")}),
    ({LEVEL: "rack", SIZE: "99999999999"}, {(at(SIZE), "Invalid")}),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "faults"), CASES)
def test_slices_are_validated_as_kueue_does(
    annotations: dict[str, str], faults: set[tuple[str, str]]
) -> None:
    assert faults == said(list(topology_faults(metadata(annotations), "m", 8, Gates())))


def test_layers_and_groups_exclude_each_other_where_layers_are_known() -> None:
    both = metadata({LAYERS: TWO, GROUP: "g", REQUIRED: "rack"})
    assert {(at(GROUP), "Forbidden")} == said(list(topology_faults(both, "m", 8, Gates())))
    off = Gates.of({"TASMultiLayerTopology": False}, check=False)
    assert {(at(LAYERS), "Forbidden")} == said(list(topology_faults(both, "m", 8, off)))


def elastic_job(annotations: dict[str, str]) -> Json:
    template = {"metadata": metadata(annotations), "spec": {"containers": []}}
    return job({"template": template}, annotations={f"{PREFIX}elastic-job": "true"})


def test_the_topology_of_a_job_is_validated_step_by_step() -> None:
    place = "spec.template.metadata.annotations"
    ill_formed = elastic_job({REQUIRED: "@", LEVEL: "rack", SIZE: "9"})
    assert {(f"{place}[{PREFIX}{REQUIRED}]", "Invalid")} == said(job_faults(ill_formed))
    not_elastic = elastic_job({PREFERRED: "rack", LEVEL: "rack", SIZE: "9"})
    assert {(f"{place}.{PREFIX}{PREFERRED}", "Forbidden")} == said(job_faults(not_elastic))
    too_large = elastic_job({LEVEL: "rack", SIZE: "9"})
    assert {(f"{place}[{PREFIX}{SIZE}]", "Invalid")} == said(job_faults(too_large))


def test_without_topology_aware_scheduling_only_pods_are_validated() -> None:
    off = Gates.of({"TopologyAwareScheduling": False}, check=False)
    assert [] == job_faults(elastic_job({REQUIRED: "@"}), None, off)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata({REQUIRED: "@"})}
    path = f"metadata.annotations[{PREFIX}{REQUIRED}]"
    assert {(path, "Invalid")} == said(pod_faults(pod, None, off))
