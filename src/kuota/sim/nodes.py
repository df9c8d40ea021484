# SPDX-License-Identifier: Apache-2.0
"""Nodes and running pods in manifests, as a cluster would report them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kuota.api.base import Condition
from kuota.api.core import Node
from kuota.api.topology_codec import HOSTNAME
from kuota.bridge import inbound_nodes
from kuota.engine import model
from kuota.engine.domains import NodeKnowledge
from kuota.engine.facts import EngineObject

_READY = Condition(type="Ready", status="True")
UNPLACED = (
    "There is no Node among the manifests, so pods are not placed: only quota decides about the "
    "flavors with a topology. Add the Nodes to plan their placement."
)


def node(obj: Node) -> model.Node:
    """Return the node. One that is written by hand counts as ready and has a hostname label."""
    status, meta = obj.status, obj.metadata
    given = replace(
        obj,
        metadata=replace(meta, labels={HOSTNAME: meta.name, **(meta.labels or {})}),
        status=replace(
            status,
            conditions=[_READY] if status.conditions is None else status.conditions,
            allocatable=status.capacity if status.allocatable is None else status.allocatable,
        ),
    )
    return inbound_nodes.node(given)


def knowledge(known: Iterable[EngineObject]) -> NodeKnowledge:
    """Return whether pods are placed: only if there are nodes at all."""
    return (
        NodeKnowledge.LISTED
        if any(isinstance(e, model.Node) for e in known)
        else NodeKnowledge.IGNORED
    )


def notes(known: Iterable[EngineObject]) -> list[str]:
    """Return a note if pods would be placed but there are no nodes."""
    objects = list(known)
    placed = any(isinstance(each, model.ResourceFlavor) and each.topology for each in objects)
    return [UNPLACED] if placed and knowledge(objects) is NodeKnowledge.IGNORED else []
