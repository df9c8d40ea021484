# SPDX-License-Identifier: Apache-2.0
"""Short builders for stored objects."""

from __future__ import annotations

from kuota.api.base import Json, Key

PODS = "pods"
JOBS = "jobs.batch"


def thing(name: str, namespace: str = "team", value: object = 0) -> Json:
    """An object that carries one value."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"kind": "Thing", "metadata": metadata, "spec": {"value": value}}


def at(obj: Json, revision: int) -> Json:
    """The same object at a resourceVersion."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def key(name: str, namespace: str = "team") -> Key:
    return Key(namespace, name)
