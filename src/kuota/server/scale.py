# SPDX-License-Identifier: Apache-2.0
"""The scale subresource of custom kinds: one number, wherever the kind keeps it."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json

from . import jsonpath
from .columns import dig, mapped
from .kinds import Scale
from .status import bad_request

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Json, scale: Scale) -> Json:
    """The Scale object that stands for `obj`."""
    metadata = {key: obj["metadata"][key] for key in _SHOWN if key in obj["metadata"]}
    status: Json = {"replicas": _count(obj, scale.status_replicas)}
    selector = jsonpath.first(obj, scale.selector) if scale.selector else None
    if isinstance(selector, str):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _count(obj, scale.spec_replicas)},
        "status": status,
    }


def scaled(obj: Json, wanted: Json, scale: Scale) -> Json:
    """The object with the number of replicas that the Scale object asks for."""
    count = dig(wanted, "spec", "replicas")
    count = 0 if count is None else count
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise bad_request("spec.replicas must be a whole number, 0 or more")
    revision = dig(wanted, "metadata", "resourceVersion")
    result = _set(obj, scale.spec_replicas.strip(".").split("."), count)
    if revision:
        result["metadata"] = result["metadata"] | {"resourceVersion": revision}
    return result


def _count(obj: Json, path: str) -> int:
    value = jsonpath.first(obj, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _set(obj: Any, steps: list[str], value: int) -> Json:
    below = mapped(obj)
    inner: Any = value if len(steps) == 1 else _set(below.get(steps[0]), steps[1:], value)
    return below | {steps[0]: inner}
