# SPDX-License-Identifier: Apache-2.0
"""Explains why one workload is not admitted, as `kuota plan --explain` does, by path.

The group is Kuota's own. An explanation names other workloads only where the caller may read them.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.explanation import Explanation
from kuota.engine.model import Instant
from kuota.view.words import why_row

from .api import ApiResponse, failure
from .pending import Objects

GROUP = "visibility.kuota.dev"
VERSION = "v1alpha1"
PREFIX = f"/apis/{GROUP}"
KIND = "WorkloadExplanation"
RESOURCE, SUBRESOURCE = "workloads", "explanation"
HIDDEN = "workloads of other namespaces"
"""The name of every workload that the caller may not read."""

MayRead = Callable[[str], bool]
"""Whether the caller may read the Workloads of a namespace."""


def explanation_path(key: Key) -> str:
    """Where the explanation of a workload is served."""
    return f"{PREFIX}/{VERSION}/namespaces/{key.namespace}/{RESOURCE}/{key.name}/{SUBRESOURCE}"


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
    """Answers from the engine's state at that moment."""

    def __init__(self, engine: Engine, objects: Objects) -> None:
        self._engine = engine
        self._objects = objects

    def answer(self, method: str, path: str, now: Instant, may_read: MayRead) -> ApiResponse:
        """The answer to any request under `PREFIX`."""
        if method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", f"{method[:20]} is not served here")
        key = parse_path(path)
        found = self._engine.explain(key, now) if key is not None else None
        if key is None or found is None:
            what = f'{RESOURCE}.{GROUP} "{key.name}"' if key is not None else "the path"
            return failure(404, "NotFound", f"{what} was not found")
        return ApiResponse(status=200, body=self._document(key, found, may_read))

    def _document(self, key: Key, found: Explanation, may_read: MayRead) -> Json:
        def named(other: Key) -> str:
            return self._named(other) if may_read(other.namespace) else HIDDEN

        row = why_row(found, named)
        body: Json = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"namespace": key.namespace, "name": key.name},
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
