# SPDX-License-Identifier: Apache-2.0
"""Unique names of cluster-scoped objects, so that tests can share a server."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json
from kuota.kube.resources import ALL, NAMESPACES

_CLUSTER_WIDE = {each.kind for each in ALL if not each.namespaced}
_REFERENCES = (
    "cohortName",
    "parentName",
    "clusterQueue",
    "priorityClassName",
    "topologyName",
    "kueue.x-k8s.io/priority-class",
)
_NAMED_LISTS = ("flavors", "admissionChecks")


class Names:
    """The names of one story."""

    def __init__(self, tag: str) -> None:
        self.namespace = f"team-{tag}"
        self._tag = tag

    def own(self, name: str) -> str:
        """The name that an object outside namespaces really has."""
        return f"{name}-{self._tag}"

    def placed(self, obj: Json) -> Json:
        """A manifest as it is stored: in the story's namespace, or under its own name."""
        made: Json = self.referring(obj)
        meta = made["metadata"]
        if made["kind"] == NAMESPACES.kind:
            name = self.namespace
            labels = (meta.get("labels") or {}) | {"kubernetes.io/metadata.name": name}
            return made | {"metadata": meta | {"name": name, "labels": labels}}
        if made["kind"] in _CLUSTER_WIDE:
            return made | {"metadata": meta | {"name": self.own(meta["name"])}}
        return made | {"metadata": meta | {"namespace": self.namespace}}

    def referring(self, body: Any) -> Any:
        """Any part of an object, with the references in it changed to the story's names."""
        if isinstance(body, list):
            return [self.referring(each) for each in body]
        if not isinstance(body, dict):
            return body
        return {name: self._field(name, value) for name, value in body.items()}

    def _field(self, name: str, value: Any) -> Any:
        if name in _REFERENCES and value:
            return self.own(value)
        made = self.referring(value)
        if name in _NAMED_LISTS and isinstance(made, list):
            return [each | {"name": self.own(each["name"])} for each in made]
        return made
