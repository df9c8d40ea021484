# SPDX-License-Identifier: Apache-2.0
"""Pod sets without what an API server would silently change, so that comparisons stay honest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kuota.api.base import Json
from kuota.api.edits import edited


def sanitized(pod_sets: Iterable[Json]) -> list[Json]:
    """The pod sets with every environment variable of a container once: the last one counts."""
    return [_clean(each) for each in pod_sets]


def _clean(pod_set: Json) -> Json:
    for field in ("containers", "initContainers"):
        pod_set = edited(pod_set, f"template.spec.{field}[]", _once)
    return pod_set


def _once(container: Json) -> Json:
    listed = container.get("env")
    if not isinstance(listed, list):
        return container
    last: dict[Any, Json] = {each.get("name"): each for each in listed if isinstance(each, dict)}
    return container if len(last) == len(listed) else container | {"env": list(last.values())}
