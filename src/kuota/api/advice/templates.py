# SPDX-License-Identifier: Apache-2.0
"""Finds the pod templates in an object of a built-in kind."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..rules.report import child, objects

_PATHS = {
    ("batch/v1", "Job"): ("spec", "template"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "StatefulSet"): ("spec", "template"),
}


def pod_templates(obj: Json) -> Iterator[tuple[str, Json]]:
    """Yield the path of each pod template, and the template. A Pod is its own, at path ""."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return
    if (api_version, kind) == ("v1", "Pod"):
        yield "", obj
    elif (api_version, kind) in _PATHS:
        path = _PATHS[api_version, kind]
        yield ".".join(path), child(obj, *path)
    elif kind == "Workload":
        for path_text, pod_set in objects(child(obj, "spec").get("podSets"), "spec.podSets"):
            yield f"{path_text}.template", child(pod_set, "template")
