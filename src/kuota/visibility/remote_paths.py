# SPDX-License-Identifier: Apache-2.0
"""Where the pods of workloads in other clusters, and their logs, are served. Pure."""

from __future__ import annotations

from urllib.parse import unquote

from kuota.api.base import Key
from kuota.engine.model import Struct

from .explanation import GROUP, RESOURCE, VERSION

KIND = "RemotePods"
PODS, LOG = "pods", "log"


class RemotePath(Struct):
    """The workload that a path names, and whether its pods or the log of one are wanted."""

    key: Key
    subresource: str


def parse_path(path: str) -> RemotePath | None:
    """Return what a path names; None for all other paths."""
    match [unquote(each) for each in path.strip("/").split("/")]:
        case ["apis", group, version, "namespaces", namespace, resource, name, below] if (
            (group, version, resource) == (GROUP, VERSION, RESOURCE)
            and below in (PODS, LOG)
            and namespace
            and name
        ):
            return RemotePath(key=Key(namespace, name), subresource=below)
    return None


def pods_path(key: Key) -> str:
    """Return where the pods of a workload are served."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{key.namespace}/{RESOURCE}/{key.name}/{PODS}"
