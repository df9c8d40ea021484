# SPDX-License-Identifier: Apache-2.0
"""Validates the annotations of a pod template that request topology-aware scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple

import msgspec

from .. import names
from ..base import Json
from ..faults import FieldError, duplicate, forbidden, invalid, malformed, required
from ..gates import Gate, Gates
from .metadata import PREFIX
from .report import mapping, string_map, truth, whole

REQUIRED = f"{PREFIX}podset-required-topology"
PREFERRED = f"{PREFIX}podset-preferred-topology"
UNCONSTRAINED = f"{PREFIX}podset-unconstrained-topology"
SLICE_REQUIRED = f"{PREFIX}podset-slice-required-topology"
SLICE_SIZE = f"{PREFIX}podset-slice-size"
SLICE_LAYERS = f"{PREFIX}podset-slice-required-topology-constraints"
GROUP_NAME = f"{PREFIX}podset-group-name"
_MODES = (REQUIRED, PREFERRED, UNCONSTRAINED)
_MAX_LAYERS = 3
_INT32 = range(-(2**31), 2**31)


class _Layer(msgspec.Struct):
    """One layer of slices, as Kueue decodes it."""

    topology: str = ""
    size: Annotated[int, msgspec.Meta(ge=_INT32.start, lt=_INT32.stop)] = 0


_LAYERS: msgspec.json.Decoder[list[_Layer | None] | None] = msgspec.json.Decoder(
    list[_Layer | None] | None
)


def topology_faults(
    metadata: Any, path: str, pods: int | None, gates: Gates
) -> Iterator[FieldError]:
    """Yield the faults of the metadata of a pod template at `path`. `pods` is its pod count."""
    yield from request_faults(metadata, path, gates)
    yield from size_faults(metadata, path, pods)


def request_faults(metadata: Any, path: str, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults that do not depend on the number of pods."""
    annotations = string_map(mapping(metadata).get("annotations"))
    at = f"{path}.annotations"
    yield from _mode_faults(annotations, at)
    yield from _slice_faults(annotations, at)
    yield from _group_faults(annotations, at, gates)
    yield from _layers_faults(annotations, at, gates)


def size_faults(metadata: Any, path: str, pods: int | None) -> Iterator[FieldError]:
    """Yield a fault for each slice that is larger than the pod set."""
    if pods is None:
        return
    annotations = string_map(mapping(metadata).get("annotations"))
    layers = _layers(annotations.get(SLICE_LAYERS, ""))
    sizes = {
        SLICE_SIZE: _int32(annotations.get(SLICE_SIZE, "")),
        SLICE_LAYERS: layers[0].size if layers else None,
    }
    for key, size in sizes.items():
        if size is not None and size > pods:
            # Kueue's text, because tools look for it.
            message = f'Invalid value: "{size}": must not be greater than pod set count {pods}'
            yield invalid(f"{path}.annotations[{key}]", size, message, f"use {pods} or less")


class GroupMember(NamedTuple):
    """A pod set that may share a topology group: the path of its metadata, and the metadata."""

    path: str
    pods: int
    metadata: Json

    @property
    def annotations(self) -> dict[str, str]:
        return string_map(self.metadata.get("annotations"))

    @property
    def placement(self) -> tuple[str, str] | None:
        """Its required or preferred level. Without one, it belongs to no group."""
        found = self.annotations
        return next(((key, found[key]) for key in (REQUIRED, PREFERRED) if key in found), None)


def group_faults(members: Iterable[GroupMember]) -> Iterator[FieldError]:
    """Yield the faults of pod sets that share a topology group: a leader, and its workers."""
    groups: dict[str, list[GroupMember]] = {}
    for each in members:
        if GROUP_NAME in each.annotations and each.placement is not None:
            groups.setdefault(each.annotations[GROUP_NAME], []).append(each)
    for name, group in groups.items():
        yield from _one_group_faults(name, group)


def _one_group_faults(name: str, group: list[GroupMember]) -> Iterator[FieldError]:
    complaint = ""
    if len(group) != 2:
        complaint = f"a group must have exactly 2 pod sets, {name} has {len(group)}"
    elif all(each.pods != 1 for each in group):
        complaint = "one of the two pod sets of a group must have exactly 1 pod"
    for each in group if complaint else ():
        yield invalid(f"{each.path}.annotations[{GROUP_NAME}]", name, complaint)
    if len(group) == 2 and group[0].placement != group[1].placement:
        for each, other in (group, reversed(group)):
            message = f"must request the same topology level as {other.path}, in group {name}"
            yield invalid(f"{each.path}.annotations", None, message)


def _mode_faults(annotations: dict[str, str], at: str) -> Iterator[FieldError]:
    given = [key for key in _MODES if key in annotations]
    if len(given) > 1:
        message = f"{' and '.join(given)} are mutually exclusive"
        yield invalid(at, None, message, "keep one of them")
    for key in (REQUIRED, PREFERRED, SLICE_REQUIRED):
        if key in annotations:
            complaints = names.qualified_name(annotations[key])
            yield from malformed(f"{at}[{key}]", annotations[key], complaints)
    value = annotations.get(UNCONSTRAINED)
    if value is not None and truth(value) is None:
        yield invalid(f"{at}[{UNCONSTRAINED}]", value, "must be true or false", 'write "true"')


def _slice_faults(annotations: dict[str, str], at: str) -> Iterator[FieldError]:
    size, level = annotations.get(SLICE_SIZE), annotations.get(SLICE_REQUIRED)
    path = f"{at}[{SLICE_SIZE}]"
    if size is None:
        if level is not None:
            yield required(path, "a slice level needs a slice size", f"set {SLICE_SIZE}")
        return
    if level is None:
        fix = f"set {SLICE_REQUIRED}, or remove the size"
        yield forbidden(path, "a slice size needs a level that holds the slice", fix)
    yield from _size_faults(size, path)


def _size_faults(size: str, path: str) -> Iterator[FieldError]:
    number = _int32(size)
    if number is None:
        yield invalid(path, size, "must be a whole number of 32 bits")
    elif number < 1:
        yield invalid(path, size, f"must be 1 or more, is {number}")


def _int32(value: str) -> int | None:
    number = whole(value)
    return number if number is not None and number in _INT32 else None


def _group_faults(annotations: dict[str, str], at: str, gates: Gates) -> Iterator[FieldError]:
    group = annotations.get(GROUP_NAME)
    if group is None:
        return
    path = f"{at}[{GROUP_NAME}]"
    if group.isascii() and group.isdigit():
        yield invalid(path, group, "must not be a number", "use a word, such as workers")
    layers = (SLICE_LAYERS,) if gates.on(Gate.TASMultiLayerTopology) else ()
    for key in (SLICE_SIZE, SLICE_REQUIRED, *layers):
        if key in annotations:
            yield forbidden(path, f"cannot be combined with {key}", "keep one of the two")
    if REQUIRED not in annotations and PREFERRED not in annotations:
        fix = f"set {REQUIRED} or {PREFERRED}"
        yield forbidden(path, "has no meaning without a required or preferred level", fix)


def _layers_faults(annotations: dict[str, str], at: str, gates: Gates) -> Iterator[FieldError]:
    value = annotations.get(SLICE_LAYERS)
    if value is None:
        return
    path = f"{at}[{SLICE_LAYERS}]"
    if not gates.on(Gate.TASMultiLayerTopology):
        yield forbidden(path, "needs the feature gate TASMultiLayerTopology", "switch it on")
        return
    for key in (SLICE_REQUIRED, SLICE_SIZE):
        if key in annotations:
            yield forbidden(path, f"cannot be combined with {key}", f"remove {key}")
    layers = _layers(value)
    if layers is None:
        fix = 'write it like [{"topology": "example.com/rack", "size": 8}]'
        yield invalid(path, value, "must be a JSON list of objects with topology and size", fix)
    elif not 1 <= len(layers) <= _MAX_LAYERS:
        message = f"must have 1 to {_MAX_LAYERS} layers, has {len(layers)}"
        yield invalid(path, value, message, "" if layers else "remove the annotation")
    else:
        yield from _layer_faults(layers, path)


def _layers(value: str) -> list[_Layer] | None:
    """Decode the layers. Return None if the text is not a list of layers."""
    try:
        return [each or _Layer() for each in _LAYERS.decode(value) or ()]
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _layer_faults(layers: list[_Layer], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    above: int | None = None
    for index, layer in enumerate(layers):
        level, size, at = layer.topology, layer.size, f"{path}[{index}]"
        yield from malformed(f"{at}.topology", level, names.qualified_name(level))
        if level in seen:
            yield duplicate(f"{at}.topology", level, f"level {level} is listed twice")
        seen.add(level)
        if size < 1:
            yield invalid(f"{at}.size", size, f"must be 1 or more, is {size}")
        elif above is not None and above % size:
            message = f"{size} does not divide {above}, the size of the layer above"
            yield invalid(f"{at}.size", size, message)
        above = size
