# SPDX-License-Identifier: Apache-2.0
"""The devices of dynamic resource allocation (DRA) that the manifests of a plan offer."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json, Key
from kuota.api.config.shapes import Configuration
from kuota.api.rules.references import name_of, namespace_of
from kuota.api.rules.report import text
from kuota.bridge.devices.charges import DeviceFault
from kuota.bridge.devices.claims import Devices, Selector
from kuota.bridge.devices.extended import by_extended_name
from kuota.bridge.devices.mappings import class_mappings

_GROUP = "resource.k8s.io/"


def offered_devices(objects: Iterable[Json], cfg: Configuration | None) -> Devices:
    """Return the DeviceClasses, ResourceClaimTemplates and ResourceSlices of the manifests."""
    resources = cfg.resources if cfg is not None else None
    found: dict[str, list[Json]] = {}
    for each in objects:
        if text(each.get("apiVersion")).startswith(_GROUP):
            found.setdefault(text(each.get("kind")), []).append(each)
    classes = {name_of(each): each for each in found.get("DeviceClass", ())}
    templates = found.get("ResourceClaimTemplate", ())
    return Devices(
        mappings=class_mappings((resources.device_class_mappings if resources else None) or ()),
        classes=classes,
        extended=by_extended_name(classes.values()),
        templates={Key(namespace_of(each), name_of(each)): each for each in templates},
        slices=tuple(found.get("ResourceSlice", ())),
        compile_selector=_not_evaluated,
    )


def _not_evaluated(expression: str) -> Selector:
    raise DeviceFault("", f"the selector {expression!r} cannot be evaluated without a cluster")
