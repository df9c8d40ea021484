# SPDX-License-Identifier: Apache-2.0
"""Warns about topology levels that no node has. Pods that require one can never be placed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..base import Json
from ..faults import FieldError, not_found
from ..rules.metadata import annotation
from ..rules.report import child, objects, text
from ..rules.topology import REQUIRED, SLICE_REQUIRED
from ..structure import suggestion
from .environment import Environment
from .templates import pod_templates

_NEVER = "so the workload can never be placed"


def required_levels_without_nodes(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning for each required level that no Topology defines or no node has."""
    for path, level in _required_levels(obj):
        yield from _absent(path, level, environment)


def unlabelled(levels: Iterable[str], node_labels: Collection[str] | None) -> list[str]:
    """Return the levels that no node has as a label; none while the labels are unknown."""
    return [] if node_labels is None else [each for each in levels if each not in node_labels]


def levels_without_nodes(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning for each level of a Topology that no node has as a label."""
    known = environment.node_labels() if obj.get("kind") == "Topology" else None
    if known is None:
        return
    for path, each in objects(child(obj, "spec").get("levels"), "spec.levels"):
        level = text(each.get("nodeLabel"))
        if level and unlabelled([level], known):
            message = f"no node has the label {level}, so the topology has no domains"
            fix = suggestion(level, known) or "label the nodes"
            yield not_found(f"{path}.nodeLabel", level, message, fix)


def _required_levels(obj: Json) -> Iterator[tuple[str, str]]:
    if obj.get("kind") == "Workload":
        for path, pod_set in objects(child(obj, "spec").get("podSets"), "spec.podSets"):
            request = child(pod_set, "topologyRequest")
            for field in ("required", "podSetSliceRequiredTopology"):
                yield f"{path}.topologyRequest.{field}", text(request.get(field))
        return
    for path, template in pod_templates(obj):
        at = f"{path}.metadata" if path else "metadata"
        for key in (REQUIRED, SLICE_REQUIRED):
            yield f"{at}.annotations[{key}]", annotation(template, key) or ""


def _absent(path: str, level: str, environment: Environment) -> Iterator[FieldError]:
    if not level:
        return
    levels, labels = environment.topology_levels(), environment.node_labels()
    if levels is not None and level not in levels:
        fix = suggestion(level, levels) or "use a level of a Topology"
        yield not_found(path, level, f"no Topology has the level {level}, {_NEVER}", fix)
    elif labels is not None and unlabelled([level], labels):
        fix = suggestion(level, labels) or "label the nodes"
        yield not_found(path, level, f"no node has the label {level}, {_NEVER}", fix)
