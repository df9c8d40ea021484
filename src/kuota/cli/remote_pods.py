# SPDX-License-Identifier: Apache-2.0
"""Pods of jobs that run in other clusters: the manager reads them for its users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kuota.api.base import Json, Key
from kuota.kube.errors import ApiError, Forbidden, NotFound, ServerError, Unreachable
from kuota.kube.requests import LogOptions
from kuota.kube.resources import Resource, key_of
from kuota.view.conditions import holds
from kuota.visibility.explanation import GROUP, RESOURCE, VERSION
from kuota.visibility.remote_paths import pods_path

from .log_lines import Copying, Writer, begun
from .progress import Progress

if TYPE_CHECKING:
    from .session import Session

REMOTE = Resource(GROUP, VERSION, RESOURCE, "Workload")
"""Serves the logs of pods in other clusters, by Workload."""
LOOK_S = 0.5
"""The interval at which new pods are looked for. Pods of other clusters cannot be watched."""


def cluster_of(workload: Json | None) -> str:
    """Return the cluster in which a Workload runs or ran; "" if it is this one."""
    status = (workload or {}).get("status") or {}
    return str(status.get("clusterName") or "")


async def remote_pods(session: Session, workload: Json) -> list[Json]:
    """Return the pods of a Workload in its cluster, oldest first. Raises ApiError."""
    found = await session.client.fetch(pods_path(key_of(workload)))
    return list(found.get("pods") or ())


def remote_copying(
    session: Session, workload: Json, pod: str, options: LogOptions, writer: Writer | None = None
) -> Copying:
    """Return the copying of the log of a pod in another cluster."""
    options = msgspec.structs.replace(options, pod=pod)
    return Copying(session, key_of(workload), options, writer, REMOTE)


def unreadable(workload: Json, error: ApiError) -> str:
    """Return why the pods of a Workload in its cluster cannot be read, and what to do."""
    cluster, key = cluster_of(workload), key_of(workload)
    if holds(workload, "Finished"):
        return f"it ran in cluster {cluster}, where its pods were removed when it finished"
    if isinstance(error, Forbidden):
        why = f"you may not read them here: {error.message}"
    elif isinstance(error, NotFound) and not _served(error):
        why = "this server cannot read them"
    else:
        return error.message
    return (
        f"its pods are in cluster {cluster}, and {why}. With access to that cluster, use "
        f"`kubectl --context {cluster} -n {key.namespace} get pods`"
    )


def _served(error: ApiError) -> bool:
    """Whether the server has this API, and only does not find the object."""
    return error.details.get("group") == GROUP


def _dispatched(workload: Json) -> bool:
    """Whether a Workload is in another cluster, or may be soon: a check decides about it."""
    waits = holds(workload, "QuotaReserved") and not holds(workload, "Admitted")
    checks = (workload.get("status") or {}).get("admissionChecks")
    return bool(cluster_of(workload)) or bool(waits and checks)


class RemoteFollow:
    """Copies the logs of pods in other clusters while `run` is running.

    `workloads` returns the Workloads of the job. `logs` has the copying tasks by UID of the pod.
    """

    def __init__(
        self,
        session: Session,
        options: LogOptions,
        progress: Progress,
        workloads: Callable[[], Iterable[Json]],
        logs: dict[str, asyncio.Task[None]],
        *,
        prefixed: bool,
    ) -> None:
        self._session, self._options, self._progress = session, options, progress
        self._workloads, self._logs, self._prefixed = workloads, logs, prefixed
        self._said: set[str] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Look for pods until cancelled.

        A Workload that is about to be dispatched is asked for as well: the manager then keeps the
        pods of a short job until their logs are read.
        """
        while True:
            for workload in list(self._workloads()):
                if not holds(workload, "Finished"):
                    await self._look(workload)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._woken.wait()
            self._woken.clear()

    def wake(self) -> None:
        """Look at once, because a Workload has changed."""
        self._woken.set()

    async def last(self) -> None:
        """Look once more, after the job has ended.

        If no pod was seen, look twice: the manager may have listed them before they were created.
        """
        for _ in range(2):
            for workload in list(self._workloads()):
                await self._look(workload)
            if self._logs or not any(map(cluster_of, self._workloads())):
                return
            await asyncio.sleep(LOOK_S)

    async def _look(self, workload: Json) -> None:
        if not _dispatched(workload):
            return
        if cluster_of(workload):
            self._say_once(f"runs in cluster {cluster_of(workload)}")
        try:
            pods = await remote_pods(self._session, workload)
        except (Unreachable, ServerError):
            return
        except ApiError as error:
            if cluster_of(workload) and not _served(error):
                self._say_once(unreadable(workload, error))
            return
        for pod in pods:
            uid = str(pod["metadata"].get("uid"))
            if uid not in self._logs and begun(pod, self._options.container):
                self._progress.show("")
                self._logs[uid] = asyncio.create_task(self._log(workload, key_of(pod)))

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._progress.say(text)

    async def _log(self, workload: Json, pod: Key) -> None:
        writer = Writer(f"[{pod.name}] " if self._prefixed else "")
        try:
            await remote_copying(self._session, workload, pod.name, self._options, writer).run()
        except (ApiError, Unreachable) as error:
            if not isinstance(error, NotFound):
                self._progress.say(f"the log of pod {pod.name} broke off: {error}")
