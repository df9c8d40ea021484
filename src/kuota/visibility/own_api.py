# SPDX-License-Identifier: Apache-2.0
"""Kuota's own API group: explanations of workloads, and their pods in other clusters."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Json

from . import explanation, remote_paths
from .documents import ApiGroup, ServedResource, Subresource, object_schema


def _schemas(ref: Callable[[str], str]) -> Json:
    text: Json = {"type": "string"}
    anything: Json = {"type": "object"}
    whole = object_schema(apiVersion=text, kind=text, metadata=anything, why=anything)
    pods: Json = {"type": "array", "items": anything}
    remote = object_schema(apiVersion=text, kind=text, metadata=anything, cluster=text, pods=pods)
    return {explanation.KIND: whole, remote_paths.KIND: remote}


_LOG = Subresource(
    remote_paths.LOG,
    remote_paths.KIND,
    ("tailLines", "sinceSeconds"),
    ("pod", "container", "follow", "previous", "timestamps", "sinceTime"),
    text=True,
)
_SUBRESOURCES = (
    Subresource(explanation.SUBRESOURCE, explanation.KIND),
    Subresource(remote_paths.PODS, remote_paths.KIND),
    _LOG,
)

API = ApiGroup(
    name=explanation.GROUP,
    versions=(explanation.VERSION,),
    resources=(ServedResource(explanation.RESOURCE, "Workload", True, _SUBRESOURCES),),
    schemas=_schemas,
    package="dev.kuota.visibility",
)
