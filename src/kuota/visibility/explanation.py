# SPDX-License-Identifier: Apache-2.0
"""Explains why one workload is not admitted, as `kuota plan --explain` does, by path.

The group is Kuota's own. An explanation names other workloads only where the caller may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

import msgspec

from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.explanation import Explanation
from kuota.engine.model import Instant
from kuota.view.priority_classes import with_priority_classes
from kuota.view.words import why_row

from .pending import MetadataLookup
from .responses import ApiResponse, method_not_allowed, object_not_found

GROUP = "visibility.kuota.dev"
VERSION = "v1alpha1"
PREFIX = f"/apis/{GROUP}"
KIND = "WorkloadExplanation"
RESOURCE, SUBRESOURCE = "workloads", "explanation"
HIDDEN = "workloads of other namespaces"
"""The name of every workload that the caller may not read."""

MayRead = Callable[[str], bool]
"""Whether the caller may read the Workloads of a namespace."""
Priorities = Callable[[], Mapping[str, int]]
"""Returns the priority of each WorkloadPriorityClass."""


def explanation_path(key: Key) -> str:
    """Where the explanation of a workload is served."""
    return f"{PREFIX}/{VERSION}/namespaces/{key.namespace}/{RESOURCE}/{key.name}/{SUBRESOURCE}"


def mentioned_namespaces(found: Explanation) -> frozenset[str]:
    """Return the namespaces of all workloads that the explanation can name."""
    named: set[str] = set()

    def recorded(key: Key) -> str:
        named.add(key.namespace)
        return ""

    why_row(found, recorded)
    return frozenset(named)


def parse_path(path: str) -> Key | None:
    """The workload whose explanation the path names; None for all other paths."""
    match [unquote(each) for each in path.strip("/").split("/")]:
        case ["apis", group, version, "namespaces", namespace, resource, name, subresource] if (
            group,
            version,
            resource,
            subresource,
        ) == (GROUP, VERSION, RESOURCE, SUBRESOURCE):
            return Key(namespace, name)
    return None


class ExplanationApi:
    """Responds with the engine's current state."""

    def __init__(
        self, engine: Engine, objects: MetadataLookup, priorities: Priorities = dict
    ) -> None:
        self._engine = engine
        self._objects = objects
        self._priorities = priorities

    def find(self, method: str, key: Key, now: Instant) -> Explanation | ApiResponse:
        """Return the explanation of a workload, or the error to respond with."""
        rejected = method_not_allowed(method)
        if rejected is not None:
            return rejected
        return self._engine.explain(key, now) or object_not_found(GROUP, RESOURCE, key.name)

    def response(self, found: Explanation, may_read: MayRead) -> ApiResponse:
        """Return the response for a caller who may read the Workloads of some namespaces."""
        return ApiResponse(status=200, body=self._document(found, may_read))

    def _document(self, found: Explanation, may_read: MayRead) -> Json:
        def named(other: Key) -> str:
            return self._named(other) if may_read(other.namespace) else HIDDEN

        row = why_row(with_priority_classes(found, self._priorities()), named)
        body: Json = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"namespace": found.workload.namespace, "name": found.workload.name},
        }
        if row is None:
            return body
        shown = [each for each in row.protected if each.workload != HIDDEN]
        return body | {"why": msgspec.to_builtins(msgspec.structs.replace(row, protected=shown))}

    def _named(self, key: Key) -> str:
        """The namespace and name of the workload's job, or of the workload if it has none."""
        owners = self._objects.metadata("Workload", key).get("ownerReferences") or ()
        name = next((str(each.get("name")) for each in owners), key.name)
        return f"{key.namespace}/{name}"
