# SPDX-License-Identifier: Apache-2.0
"""Converts the annotations of a pod template into the topology request of its pod set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kuota.api.base import Json, Struct
from kuota.api.gates import Gate, Gates
from kuota.api.rules.report import child, string_map, truth, whole
from kuota.api.rules.topology import (
    GROUP_NAME,
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_REQUIRED,
    SLICE_SIZE,
    UNCONSTRAINED,
)

_MAX_LAYERS = 3
_INT32 = range(-(2**31), 2**31)


class TopologyRequestError(ValueError):
    """An annotation of the pod template cannot be parsed."""


class _Layer(Struct):
    topology: str = ""
    size: int = 0


def topology_request(template: Json, gates: Gates, ranks: Json | None = None) -> Json | None:
    """Return the topology request; None if nothing is requested. Raises TopologyRequestError.

    `ranks` are the fields by which this kind of job orders its pods. They are sufficient for a
    request without annotations.
    """
    annotations = string_map(child(template, "metadata").get("annotations"))
    placement = _placement(annotations)
    sliced = SLICE_REQUIRED in annotations and SLICE_SIZE in annotations
    if not (placement or ranks or sliced or SLICE_LAYERS in annotations):
        return None
    request: Json = placement | _slices(annotations, gates) | (ranks or {})
    if GROUP_NAME in annotations and ("required" in placement or "preferred" in placement):
        request["podSetGroupName"] = annotations[GROUP_NAME]
    return request


def _placement(annotations: Mapping[str, str]) -> Json:
    """Return the first placement that is annotated: required, preferred or unconstrained."""
    if REQUIRED in annotations:
        return {"required": annotations[REQUIRED]}
    if PREFERRED in annotations:
        return {"preferred": annotations[PREFERRED]}
    if UNCONSTRAINED not in annotations:
        return {}
    unconstrained = truth(annotations[UNCONSTRAINED])
    if unconstrained is None:
        raise TopologyRequestError(f"{UNCONSTRAINED}: must be a boolean")
    return {"unconstrained": unconstrained}


def _slices(annotations: Mapping[str, str], gates: Gates) -> Json:
    """Return the slices of the pod set. A slice topology takes effect only with a slice size."""
    if SLICE_LAYERS in annotations and gates.on(Gate.TASMultiLayerTopology):
        return {"podsetSliceRequiredTopologyConstraints": _layers(annotations[SLICE_LAYERS])}
    if SLICE_REQUIRED not in annotations or SLICE_SIZE not in annotations:
        return {}
    size = whole(annotations[SLICE_SIZE])
    # A range compares other types than integers with each of its members.
    if size is None or size not in _INT32:
        raise TopologyRequestError(f"{SLICE_SIZE}: must be a 32-bit integer")
    return {"podSetSliceRequiredTopology": annotations[SLICE_REQUIRED], "podSetSliceSize": size}


def _layers(text: str) -> list[Any]:
    try:
        layers = msgspec.json.decode(text, type=list[_Layer])
    except msgspec.DecodeError as error:
        raise TopologyRequestError(f"{SLICE_LAYERS}: {error}") from error
    if not 1 <= len(layers) <= _MAX_LAYERS:
        raise TopologyRequestError(f"{SLICE_LAYERS}: must have 1 to {_MAX_LAYERS} entries")
    return [{"topology": each.topology, "size": each.size} for each in layers]
