# SPDX-License-Identifier: Apache-2.0
"""Which annotations of a pod template take effect in the topology request of its pod set."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.bridge.jobs.topology_request import TopologyRequestError, topology_request

LAYERS = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'


def _request(annotations: dict[str, str], gates: dict[str, bool] | None = None) -> Json | None:
    names = {f"kueue.x-k8s.io/podset-{k.replace('_', '-')}": v for k, v in annotations.items()}
    template = {"metadata": {"annotations": names}}
    return topology_request(template, Gates.of(gates or {}))


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, None),
        (
            {"required_topology": "rack", "preferred_topology": "host"},
            {"required": "rack"},
        ),
        ({"unconstrained_topology": "false"}, {"unconstrained": False}),
        ({"slice_required_topology": "rack"}, None),
        ({"slice_size": "2"}, None),
        (
            {"slice_required_topology": "rack", "slice_size": "2"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
        ),
        ({"required_topology": "rack", "slice_required_topology": "host"}, {"required": "rack"}),
        ({"group_name": "pair"}, None),
        ({"group_name": "pair", "unconstrained_topology": "true"}, {"unconstrained": True}),
        (
            {"group_name": "pair", "preferred_topology": "rack"},
            {"preferred": "rack", "podSetGroupName": "pair"},
        ),
    ],
)
def test_annotations_take_effect_only_with_those_they_need(
    annotations: dict[str, str], wanted: Json | None
) -> None:
    assert wanted == _request(annotations)


def test_layers_of_slices_replace_the_single_one_unless_they_are_disabled() -> None:
    given = {
        "slice_required_topology_constraints": LAYERS,
        "slice_required_topology": "rack",
        "slice_size": "8",
    }
    layers = [{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]
    assert {"podsetSliceRequiredTopologyConstraints": layers} == _request(given)
    single = {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 8}
    assert single == _request(given, {"TASMultiLayerTopology": False})


@pytest.mark.parametrize(
    "annotations",
    [
        {"unconstrained_topology": "perhaps"},
        {"slice_required_topology": "rack", "slice_size": "many"},
        {"slice_required_topology": "rack", "slice_size": "3000000000"},
        {"slice_required_topology_constraints": "[]"},
        {"slice_required_topology_constraints": "{}"},
        {"slice_required_topology_constraints": '[{"topology": "rack", "size": "4"}]'},
    ],
)
def test_annotations_that_cannot_be_parsed_raise(annotations: dict[str, str]) -> None:
    with pytest.raises(TopologyRequestError):
        _request(annotations)


def test_ranks_alone_make_a_request() -> None:
    ranks = {"podIndexLabel": "index"}
    assert ranks == topology_request({}, Gates(), ranks)
