# SPDX-License-Identifier: Apache-2.0
"""Why pods cannot be placed: a cause, its numbers, and a message for people."""

from __future__ import annotations

from enum import StrEnum

from kuota.engine.model import Struct

from .nodes import TAINT, NodeExclusion

RESOURCE = "resource"
OTHER_DOMAIN = "topologyDomain"

_REASONS = {
    "nodeSelector": ("does not match the node selector", "do not match the node selector"),
    "affinity": ("does not match the node affinity", "do not match the node affinity"),
    OTHER_DOMAIN: (
        "is not in the domain of the other pods",
        "are not in the domain of the other pods",
    ),
}
"""What is said of one node and of several."""


class PlacementFailureCause(StrEnum):
    """The closed list of causes."""

    NO_LEVEL_REQUESTED = "NoLevelRequested"
    UNKNOWN_LEVEL = "UnknownLevel"
    UNKNOWN_SLICE_LEVEL = "UnknownSliceLevel"
    SLICE_ABOVE_LEVEL = "SliceAboveLevel"
    NO_SLICE_SIZE = "NoSliceSize"
    LAYER_NOT_BELOW = "LayerNotBelow"
    LAYER_SIZE = "LayerSize"
    INVALID_CONSTRAINTS = "InvalidConstraints"
    NO_DOMAINS = "NoDomains"
    NOT_ENOUGH = "NotEnough"
    STALE_DOMAIN = "StaleDomain"
    NO_REPLACEMENT = "NoReplacement"


class LayerFit(Struct):
    """How many slices of one nested layer fit the best domain."""

    level: str
    fit: int
    wanted: int


class PlacementFailure(Struct):
    """Why pods have no place.

    `level` and `detail` name what the cause is about. For NOT_ENOUGH, `fit` of `wanted` pods, or
    slices if `sliced`, have a place, in one domain of the level if it is `required`; `layers` says
    so for each nested layer. `nodes` were considered, of which `excluded` could not be used at all.
    """

    cause: PlacementFailureCause
    topology: str = ""
    level: str = ""
    detail: str = ""
    fit: int = 0
    wanted: int = 0
    sliced: bool = False
    required: bool = False
    leader: bool = False
    layers: tuple[LayerFit, ...] = ()
    nodes: int = 0
    excluded: dict[NodeExclusion, int] = {}

    @property
    def message(self) -> str:
        match self.cause:
            case PlacementFailureCause.NOT_ENOUGH:
                return self._shortage() + self._exclusions()
            case PlacementFailureCause.NO_LEVEL_REQUESTED:
                return "the topology request names no level"
            case PlacementFailureCause.UNKNOWN_LEVEL:
                return f'topology "{self.topology}" has no level "{self.level}"'
            case PlacementFailureCause.UNKNOWN_SLICE_LEVEL:
                return (
                    f'topology "{self.topology}" has no level "{self.level}", which slices require'
                )
            case PlacementFailureCause.SLICE_ABOVE_LEVEL:
                return (
                    f'slices require level "{self.level}",'
                    f' which is above the requested level "{self.detail}"'
                )
            case PlacementFailureCause.NO_SLICE_SIZE:
                return f'slices require level "{self.level}", but their size is not positive'
            case PlacementFailureCause.LAYER_NOT_BELOW:
                return f'slice level "{self.level}" must be below level "{self.detail}"'
            case PlacementFailureCause.LAYER_SIZE:
                return f'the slice size at level "{self.level}" must divide the size {self.detail}'
            case _:
                return self._other()

    def _other(self) -> str:
        match self.cause:
            case PlacementFailureCause.NO_DOMAINS:
                return f'topology "{self.topology}" has no usable node with level "{self.level}"'
            case PlacementFailureCause.STALE_DOMAIN:
                return f'domain "{self.detail}" of the existing assignment has no usable node'
            case PlacementFailureCause.NO_REPLACEMENT:
                return f'there is no replacement for node "{self.detail}"'
            case _:
                return f"the constraints on nodes are invalid: {self.detail}"

    def _shortage(self) -> str:
        where = f'topology "{self.topology}"'
        if self.layers:
            layers = (
                f'{each.fit} of {each.wanted} slices at level "{each.level}"'
                for each in self.layers
            )
            return f"{where} fits only {', '.join(layers)}"
        unit = ("slice" if self.sliced else "pod") + ("s" if self.wanted != 1 else "")
        inside = f' in one domain of level "{self.level}"' if self.required else ""
        if self.leader and self.fit >= self.wanted:
            return f"{where} fits {self.wanted} {unit}{inside}, but not together with their leader"
        if not self.fit:
            return f"{where} fits none of {self.wanted} {unit}{inside}"
        return f"{where} fits only {self.fit} of {self.wanted} {unit}{inside}"

    def _exclusions(self) -> str:
        if not self.excluded:
            return ""
        reasons = ", ".join(
            f"{count} {_reason(each, count)}" for each, count in sorted(self.excluded.items())
        )
        return f"; of {self.nodes} {'node' if self.nodes == 1 else 'nodes'}, {reasons}"


def _reason(each: NodeExclusion, count: int) -> str:
    one = count == 1
    if each.by in (TAINT, RESOURCE):
        what = f'the taint "{each.detail}"' if each.by == TAINT else f"too little {each.detail}"
        return f"{'has' if one else 'have'} {what}"
    return _REASONS[each.by][0 if one else 1]
