# SPDX-License-Identifier: Apache-2.0
"""What Kueue's webhook holds a ResourceFlavor to: labels, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..base import Json
from ..faults import FieldError, duplicate, malformed
from .metadata import label_faults, toleration_faults
from .report import child, elements, mapping, text


def resource_flavor_faults(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    yield from label_faults(spec.get("nodeLabels"), "spec.nodeLabels")
    yield from _taint_faults(spec)
    yield from toleration_faults(spec.get("tolerations"), "spec.tolerations")


def _taint_faults(spec: Json) -> Iterator[FieldError]:
    seen = set()
    for index, each in enumerate(elements(spec.get("nodeTaints"))):
        taint, path = mapping(each), f"spec.nodeTaints[{index}]"
        key, value = text(taint.get("key")), text(taint.get("value"))
        yield from malformed(f"{path}.key", key, names.qualified_name(key))
        yield from malformed(f"{path}.value", value, names.label_value(value))
        pair = (key, text(taint.get("effect")))
        if pair in seen:
            message = f"taint {key} with effect {pair[1]} is listed twice"
            yield duplicate(path, taint, message, "a key and effect may appear once")
        seen.add(pair)
