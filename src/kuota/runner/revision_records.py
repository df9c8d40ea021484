# SPDX-License-Identifier: Apache-2.0
"""Keeps the records of the templates of Deployments or StatefulSets, see `revisions`."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json, Key
from kuota.api.rules.report import child
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import key_of
from kuota.kube.workqueue import RetryLater

from .cron_controller import OWNER, owner_uids
from .replicas import Revision
from .revisions import RecordKind, RecordWrite, is_record_of, record_name, record_step


class RevisionRecords:
    """The records of all objects of one kind. The caller must run the informer."""

    def __init__(self, client: Client, kind: RecordKind, clock: Clock) -> None:
        self.informer: Informer[Json] = Informer(client, kind.resource, clock=clock)
        self.informer.add_index(OWNER, owner_uids)
        self._client = client
        self._kind = kind

    @property
    def numbers_objects(self) -> bool:
        """Whether the objects have the number of their revision, too."""
        return self._kind.numbers_objects

    async def keep(self, obj: Json, pods: Sequence[Json]) -> int | None:
        """Bring the records of an object up to date. Returns the number of its present template.

        A paused or deleted object gets no new records, and the result is None.
        """
        if child(obj, "metadata").get("deletionTimestamp") or child(obj, "spec").get("paused"):
            return None
        step = record_step(self._kind, obj, self._records(obj), pods)
        for each in step.writes:
            await self._write(each)
        return step.number

    async def _write(self, write: RecordWrite) -> None:
        match write.verb:
            case "create":
                await self._create(write.record)
            case "patch":
                await self._change(write.record, write.patch)
            case "delete":
                await self._delete(write.record)

    def revisions(self, obj: Json) -> dict[str, Revision]:
        """Return the recorded templates of an object by the name of their record."""
        kind = self._kind
        return {
            key_of(each).name: Revision(
                template=kind.template(each), number=kind.number(each), pods=kind.pods(each)
            )
            for each in self._records(obj)
            if is_record_of(each, obj)
        }

    def _records(self, obj: Json) -> list[Json]:
        """Return the records of an object, and the one that has the name of the next."""
        found = list(self.informer.indexed(OWNER, obj["metadata"]["uid"]))
        named = self.informer.get(Key(key_of(obj).namespace, record_name(obj)))
        return [*found, named] if named is not None and named not in found else found

    async def _create(self, record: Json) -> None:
        try:
            self.informer.wrote(await self._client.create(self._kind.resource, record))
        except AlreadyExists as error:
            raise RetryLater(f"{key_of(record)}: {error}") from error  # The watch is late.

    async def _change(self, record: Json, patch: Json) -> None:
        named = {"metadata": {"uid": record["metadata"]["uid"]} | child(patch, "metadata")}
        try:
            answer = await self._client.patch(self._kind.resource, key_of(record), patch | named)
        except NotFound:
            return
        self.informer.wrote(answer)

    async def _delete(self, record: Json) -> None:
        uid = record["metadata"]["uid"]
        try:
            answer = await self._client.delete(self._kind.resource, key_of(record), uid=uid)
        except NotFound:
            return
        self.informer.wrote(answer)
