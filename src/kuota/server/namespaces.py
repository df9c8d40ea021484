# SPDX-License-Identifier: Apache-2.0
"""Creates the initial namespaces and default service accounts, and completes deletions.

A deleted namespace stays in phase Terminating until everything in it is gone. One task per
namespace deletes its content and waits for objects with finalizers or running pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from datetime import datetime

from kuota.api.base import Json, Key
from kuota.api.status import StatusError
from kuota.failures import retried

from .admission import Write
from .changes import decoded
from .columns import dig
from .deletion import DeleteOptions
from .kinds import Kind, Kinds
from .metadata import timestamp
from .requests import ADMINS, RequestTarget, User
from .rest import Rest
from .store import NoSpace, NotFound, Store

FIRST = ("default", "kube-system")
ACCOUNTS, DEFAULT_ACCOUNT = "serviceaccounts", "default"
"""Every namespace has this service account, as in Kubernetes. It gives nobody any rights."""
_PAGE = 20
"""The number of objects that are deleted before other tasks may run."""
SYSTEM = User("system:apiserver", (ADMINS,))


class Namespaces:
    """Manages namespaces. `found` creates the initial ones; `resume` continues deletions."""

    def __init__(self, store: Store, kinds: Kinds, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def found(self) -> None:
        """Create the initial namespaces if they do not exist."""
        for name in FIRST:
            if self._store.get("namespaces", Key("", name)) is None:
                self._store.create("namespaces", _namespace(name, self._clock()))
        for each in self._store.list("namespaces").items:
            self.complete(str(dig(each, "metadata", "name")))

    def complete(self, name: str) -> None:
        """Create the default service account if it is missing.

        A namespace that is gone or being deleted gets none.
        """
        namespace = self._store.get("namespaces", Key("", name))
        if namespace is None or dig(namespace, "metadata", "deletionTimestamp"):
            return
        if self._store.get(ACCOUNTS, Key(name, DEFAULT_ACCOUNT)) is None:
            # On a full disk, the next write of the namespace or the next start creates it.
            with contextlib.suppress(NoSpace):
                self._store.create(ACCOUNTS, _account(name, self._clock()))

    def terminate(self, name: str, rest: Rest) -> None:
        """Delete the content of the namespace in a task of the running loop."""
        if name not in self._tasks:
            work = retried("namespace deletion", lambda: self._drain(name, rest))
            task = asyncio.get_running_loop().create_task(work)
            self._tasks[name] = task
            task.add_done_callback(lambda done: self._tasks.pop(name, None))

    def resume(self, rest: Rest) -> None:
        for namespace in self._store.list("namespaces").items:
            if dig(namespace, "metadata", "deletionTimestamp"):
                self.terminate(str(dig(namespace, "metadata", "name")), rest)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drain(self, name: str, rest: Rest) -> None:
        changes = self._store.watch(None, name)
        await self._empty(name, rest)
        while self._remaining(name):
            if not await changes.batch():
                return
        changes.close()
        with contextlib.suppress(NotFound):
            self._store.delete("namespaces", Key("", name))

    def _remaining(self, name: str) -> bool:
        return any(
            self._store.list(resource, name, limit=1).bodies for resource in self._store.resources()
        )

    async def _empty(self, name: str, rest: Rest) -> None:
        for resource in self._store.resources():
            kind = self._kinds.get(resource)
            after: Key | None = None
            while page := self._store.list(resource, name, after=after, limit=_PAGE).bodies:
                for body in page:
                    after = Key(name, str(decoded(body)["metadata"]["name"]))
                    self._remove(resource, kind, after, rest)
                await asyncio.sleep(0)

    def _remove(self, resource: str, kind: Kind | None, key: Key, rest: Rest) -> None:
        if kind is not None:
            self._delete(kind, key, rest)
        else:
            # An object of a deleted definition, which nobody can request any more.
            with contextlib.suppress(NotFound):
                self._store.delete(resource, key)

    def _delete(self, kind: Kind, key: Key, rest: Rest) -> None:
        target = RequestTarget(kind, kind.versions[0], key.namespace, key.name)
        write = Write(user=SYSTEM, now=self._clock(), manager="apiserver")
        # Already deleted together with its owner.
        with contextlib.suppress(StatusError):
            rest.delete(target, DeleteOptions("Background"), write)


def _account(namespace: str, now: datetime) -> Json:
    metadata = _born(DEFAULT_ACCOUNT, now) | {"namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _born(name: str, now: datetime) -> Json:
    return {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(now)}


def _namespace(name: str, now: datetime) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": _born(name, now) | {"labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
