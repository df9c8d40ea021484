# SPDX-License-Identifier: Apache-2.0
"""Builders of stored objects."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.server.store import Durability, Store

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


def filled(path: str, names: str = "abc") -> Store:
    """A store in a file, with pods of these names."""
    store = Store.open(path, Durability.NORMAL)
    for name in names:
        store.create(PODS, thing(name))
    return store
