# SPDX-License-Identifier: Apache-2.0
"""The kubelet and scheduler of this machine: one worker for each pod that is bound here.

At start it adopts what an earlier runner left: existing pods continue, and processes without a pod
are ended. Stopping the agent does not affect running processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.failures import INTERNAL_ERROR, note, report
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import NODES, key_of
from kuota.kube.workqueue import REPEATED

from .binder import Binder
from .binding import offer
from .cgroups import Cgroups, delegated
from .devices import Device, DeviceAllocations
from .log_archive import LogArchive, job_owner
from .nodes import NodeKeeper, NodePlan, former
from .pod_home import PodHome, homes
from .pod_worker import PodWorker
from .proc import become_subreaper
from .settings import RunnerSettings, WorkerContext
from .spawn import ShimStarter

_RETRY = Backoff(base=1_000, cap=30_000)
"""Delays before a failed worker is restarted, in milliseconds."""
_PAUSE_S = 0.2
"""The delay before directories of deleted pods are deleted together."""


class Agent:
    """Runs pods on this machine. The caller runs the informers `jobs` and `pods`."""

    def __init__(
        self,
        client: Client,
        jobs: Informer[Json],
        pods: Informer[Json],
        plans: Sequence[NodePlan],
        settings: RunnerSettings,
        *,
        clock: Clock | None = None,
        cgroups: Cgroups | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._archive = LogArchive(settings.state_dir)
        self._clock = steady(clock)
        self._settings = settings
        self._plans = {each.name: each for each in plans}
        self._keeper = NodeKeeper(client, plans, settings.host_ip, self._clock)
        self._nodes: Informer[Json] = Informer(client, NODES, clock=self._clock)
        self._binder = Binder(client, self._clock, recorder)
        self._recorder = recorder
        self._cgroups = delegated() if cgroups is None else cgroups
        self._homes = set(self._plans)
        """The nodes whose pods run here: the offered ones, and former ones that still have pods."""
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._opened = False
        self._emptying: asyncio.TimerHandle | None = None

    def worker(self, uid: str) -> PodWorker | None:
        """The worker of the pod; None if the pod does not run here."""
        return self._workers.get(uid)

    def workers(self) -> list[PodWorker]:
        """The workers of all pods that run here."""
        return list(self._workers.values())

    def devices(self) -> list[Device]:
        """The devices of this machine; empty before it runs."""
        return self._shared.allocations.all() if self._opened else []

    async def run(self) -> None:
        """Run until cancelled. Processes keep running."""
        self._open()
        try:
            await self._keeper.register()
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._nodes.run())
                informers = (self._nodes, self._pods, self._jobs)
                await asyncio.gather(*(each.synced.wait() for each in informers))
                await self._retire_nodes()
                self._nodes.observe(self._node_changed)
                self._pods.observe(self._pod_changed)
                self._end_orphans()
                self._empty_trash()
                self._jobs.observe(self._job_changed)
                self._forget_logs()
                group.create_task(self._binder.run())
                group.create_task(self._keeper.run())
        finally:
            if self._emptying is not None:
                self._emptying.cancel()
            self._shared.shims.close()

    def _open(self) -> None:
        os.makedirs(self._settings.pods_dir, mode=0o711, exist_ok=True)
        os.chmod(self._settings.pods_dir, 0o711)
        os.makedirs(self._settings.trash_dir, mode=0o700, exist_ok=True)
        become_subreaper()  # orphans of killed shims become our children
        devices = {name: plan.devices for name, plan in self._plans.items()}
        self._shared = WorkerContext(
            client=self._client,
            pods=self._pods,
            settings=self._settings,
            allocations=DeviceAllocations(self._settings.state_dir + "/devices.json", devices),
            shims=ShimStarter(),
            clock=self._clock,
            cgroups=self._cgroups,
            allocatable={name: plan.allocatable for name, plan in self._plans.items()},
            cpus={name: plan.cpus for name, plan in self._plans.items()},
            recorder=self._recorder,
        )
        self._opened = True

    async def _retire_nodes(self) -> None:
        """Retire nodes that an earlier start offered. Their pods are still run here."""
        old = former(self._nodes.values(), self._plans)
        running = [each for each in self._pods.values() if not is_terminated(each)]
        busy = {str((each.get("spec") or {}).get("nodeName") or "") for each in running}
        self._homes |= {key_of(each).name for each in old}
        await self._keeper.retire(old, busy)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        mine = [each for each in self._nodes.values() if key_of(each).name in self._plans]
        self._binder.set_offers([offer(each) for each in mine])

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        self._binder.pod_changed(old, new)
        pod = new or old
        if pod is None or (pod.get("spec") or {}).get("nodeName") not in self._homes:
            return
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(new)
        elif new is None:
            self._discard(pod)
        elif not is_terminated(new):
            self._employ(PodWorker(new, self._shared))

    def _job_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._archive.forget(old["metadata"]["uid"])

    def _forget_logs(self) -> None:
        """Forget the logs of Jobs that were deleted while no runner was there."""
        known = {each["metadata"]["uid"] for each in self._jobs.values()}
        for uid in self._archive.jobs():
            if uid not in known:
                self._archive.forget(uid)

    def _discard(self, pod: Json) -> None:
        """Remove the home of a deleted pod, but keep its logs if its Job still exists."""
        home = PodHome(self._settings.pods_dir, pod["metadata"]["uid"])
        owner = job_owner(pod)
        job = self._jobs.get(Key(pod["metadata"]["namespace"], owner["name"])) if owner else None
        if owner is not None and job is not None and _is_kept(job, owner["uid"]):
            self._archive.keep(owner["uid"], pod, home)
        self._remove(home)

    def _remove(self, home: PodHome) -> None:
        """Remove the home. Another process deletes its content, which may take long."""
        try:
            home.discard(self._settings.trash_dir)
        except OSError:
            home.remove()  # A full disk may have no space for an entry of the trash.
        if self._emptying is None:
            # Many pods may be deleted at once.
            loop = asyncio.get_running_loop()
            self._emptying = loop.call_later(_PAUSE_S, self._empty_trash)

    def _empty_trash(self) -> None:
        """Start a process that empties the trash. What it leaves is deleted the next time."""
        self._emptying = None
        with contextlib.suppress(OSError):
            if os.listdir(self._settings.trash_dir):
                self._shared.shims.delete_content(self._settings.trash_dir)

    def _employ(self, worker: PodWorker) -> None:
        self._workers[worker.uid] = worker
        work = self._work(worker)
        try:
            self._tasks[worker.uid] = self._group.create_task(work)
        except RuntimeError:
            # The agent is stopping: before Python 3.13, the group leaves the coroutine open.
            work.close()
            raise

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker. A failure only affects its own pod."""
        failures = 0
        try:
            while True:
                try:
                    await worker.run()
                    if worker.gone:
                        self._discard(worker.pod)
                    return
                except Exception as error:
                    failures += 1
                    self._report(worker, error, failures)
                await self._clock.sleep(_RETRY.wait(failures) / 1000)
        finally:
            del self._workers[worker.uid], self._tasks[worker.uid]
            for other in self._workers.values():
                other.wake_if_waiting()

    def _report(self, worker: PodWorker, error: Exception, failures: int) -> None:
        report("pod", error, f"running pod {key_of(worker.pod)} failed")
        if failures >= REPEATED and self._recorder is not None:
            about = {"apiVersion": "v1", "kind": "Pod"} | worker.pod
            said = note("Running it", error)
            self._recorder.record(about, INTERNAL_ERROR, said, warning=True)

    def _end_orphans(self) -> None:
        """End the processes of pods that the server does not have."""
        known = {pod["metadata"]["uid"] for pod in self._pods.values()}
        for uid in homes(self._settings.pods_dir):
            home = PodHome(self._settings.pods_dir, uid)
            pod = home.pod()
            if uid in known:
                continue
            if pod is None:
                self._remove(home)
            elif uid not in self._workers:
                self._employ(PodWorker(pod, self._shared, gone=True))
        for uid in self._shared.allocations.holders():
            if uid not in self._workers:
                self._shared.allocations.release(uid)


def _is_kept(job: Json, uid: str) -> bool:
    """Whether this is the Job with that uid, and it is not being deleted."""
    metadata = job["metadata"]
    return bool(metadata["uid"] == uid and not metadata.get("deletionTimestamp"))
