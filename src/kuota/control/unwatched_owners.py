# SPDX-License-Identifier: Apache-2.0
"""Reads owners of jobs whose kinds have no informer, so that chains of owners have no gaps.

A PyTorchJob whose integration is disabled may belong to an AppWrapper that is queued. Only jobs
with such owners cause requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.owners import controller_of
from kuota.api.rules.report import child, text
from kuota.bridge.jobs.ancestor import DEEPEST, REPLICA_SET, GroupKind, Lookup, group_kind
from kuota.kube.client import Client
from kuota.kube.errors import NotFound
from kuota.kube.resources import REPLICA_SETS, Resource, key_of

_KEPT = ("name", "namespace", "uid", "labels", "ownerReferences")
_MOST = 1000
"""The number of owners that are remembered."""


class UnwatchedOwners:
    """The metadata of such owners. Their own owners are not expected to change."""

    def __init__(self, client: Client, watched: Collection[GroupKind]) -> None:
        self._client = client
        kinds = {(each.group, each.kind): each for each in FRAMEWORKS.values()}
        known = {at: Resource.of(each, each.plural) for at, each in kinds.items()}
        known[REPLICA_SET] = REPLICA_SETS
        self._resources: Mapping[GroupKind, Resource] = {
            at: each for at, each in known.items() if at not in watched
        }
        self._found: dict[tuple[GroupKind, Key], Json] = {}

    def get(self, kind: GroupKind, key: Key) -> Json | None:
        return self._found.get((kind, key))

    async def read(self, job: Json, look_up: Lookup) -> None:
        """Read the owners of a job. `look_up` finds those whose kinds are watched."""
        at: Json | None = job
        namespace = key_of(job).namespace
        for _ in range(DEEPEST):
            owner = controller_of(at) if at is not None else None
            if owner is None:
                return
            kind, key = group_kind(owner), Key(namespace, text(owner.get("name")))
            resource, known = self._resources.get(kind), self._found.get((kind, key))
            if resource is None:
                at = look_up(kind, key)
            elif known is not None and known["metadata"].get("uid") == owner.get("uid"):
                at = known
            else:
                at = await self._read(kind, resource, key)

    async def _read(self, kind: GroupKind, resource: Resource, key: Key) -> Json | None:
        self._found.pop((kind, key), None)
        try:
            found = await self._client.get(resource, key)
        except NotFound:
            return None
        meta = child(found, "metadata")
        kept = {"metadata": {name: meta[name] for name in _KEPT if name in meta}}
        if len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        self._found[kind, key] = kept
        return kept
