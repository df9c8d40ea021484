# SPDX-License-Identifier: Apache-2.0
"""Runs one pod on this machine, from its binding until nothing of it is left.

There is one task per pod, which wakes when a process starts or ends, when the pod changes, and when
a timer expires. It asks `pod_steps` what to do, does it, and reports the status. It can be stopped
at any time and continued by another runner: its state is in the pod and in its directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os

from kuota.api.backoff import Backoff
from kuota.api.base import Json
from kuota.api.core import containers
from kuota.api.owners import controller_of
from kuota.kube.errors import Conflict, KubeError, NotFound
from kuota.kube.requests import PatchType
from kuota.kube.resources import PODS, key_of

from .binding import requests_of
from .container_env import LaunchError
from .devices import Grant
from .exec import ContainerProcess, ExecFailed, ExecRequest, ExecSession, ExecSessions
from .instants import instant
from .job_pods import condition_status, container_statuses
from .launch import grace_period_s
from .pod_home import PodHome
from .pod_launch import PodLaunch
from .pod_runs import PodRuns
from .pod_status import DISRUPTION, Observed, notes_in, pod_status
from .pod_steps import RunHistory, Steps, next_steps
from .proc import owner, start_ticks
from .processes import Launch
from .settings import WorkerContext
from .shortage import is_temporary
from .usage import Measured

_LULL_S = 0.25
_RETRY = Backoff(base=100, cap=10_000)
_DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_SHORTAGE = "ResourceExhausted"
_log = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod. Report changes with `update`; `gone` if the server no longer has the pod."""

    def __init__(self, pod: Json, shared: WorkerContext, *, gone: bool = False) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.home = PodHome(shared.settings.pods_dir, self.uid)
        self.gone = gone
        self._shared = shared
        self._wake = asyncio.Event()
        self._runs = PodRuns(self.home, self.uid, shared.shims, self._wake.set, self._now)
        self._launch = PodLaunch(self.home, shared)
        self._names = [each["name"] for each in containers(pod["spec"])]
        self._waiting: dict[str, tuple[str, str]] = {}
        self._failure: tuple[str, str] | None = None
        self._reported: Json | None = None
        self._retry_at: float | None = None
        self._failures = 0
        self._grant: Grant | None = None
        self._launches: dict[str, Launch] = {}
        self._execs = ExecSessions()
        self._earlier_notes = notes_in(pod)

    def update(self, pod: Json | None) -> None:
        """Set the current pod; None if the server no longer has it."""
        if pod is None or pod["metadata"].get("uid") != self.uid:
            self.gone = True
        elif (pod.get("spec") or {}).get("containers"):
            self.pod = pod
        else:  # An ended pod, of which the informer keeps only a part.
            self.pod = {**pod, "spec": self.pod["spec"]}
        self._wake.set()

    def wake_if_waiting(self) -> None:
        """Wake the worker if it waits for resources: another pod has released some."""
        if self._waiting:
            self._wake.set()

    async def run(self) -> None:
        """Run until the server knows that the pod has ended. Cancelling stops no processes."""
        try:
            self._begin()
            while not await self._turn():
                await self._rest()
            await self._leave()
        finally:
            self._execs.close()
            self._runs.forget()

    async def exec(self, request: ExecRequest) -> ExecSession:
        """Run a command in a container, as its own process runs.

        Raises ExecFailed if the container does not run, or OSError.
        """
        name = request.container
        launch = self._launches.get(name) or await self._launch_again(name)
        process = self.process(name)
        if process is None:
            raise ExecFailed(f"container {name!r} is not running")
        actual, due = owner(process.pid), os.geteuid() if launch.uid is None else launch.uid
        if actual != due:
            raise ExecFailed(
                f"the container runs as user {actual}, and a command would run as user {due}; "
                "recreate the pod"
            )
        return self._execs.start(request, launch, process)

    def process(self, container: str) -> ContainerProcess | None:
        """The process of the container; None if it does not run."""
        found = self._runs.running(container)
        return found if found is not None and start_ticks(found.pid) == found.start else None

    def pids(self) -> list[int]:
        """Pids of which all other processes of the pod are descendants."""
        return [pid for each in self.measured().values() for pid in each.pids]

    def measured(self) -> dict[str, Measured]:
        """The running containers by name, with what is needed to measure them."""
        found = {}
        for name in self._names:
            process = self._runs.running(name)
            if process is not None:
                pids = (*self._runs.pids(name), *self._execs.pids(name))
                cgroup = self._shared.cgroups.path(self.uid, name)
                found[name] = Measured(pids, process.started, cgroup)
        return found

    async def _launch_again(self, name: str) -> Launch:
        """How an earlier runner has started the container."""
        container = next(each for each in containers(self.pod["spec"]) if each["name"] == name)
        self._take_devices()
        try:
            return await self._launch.launch(self.pod, container, self._grant or {})
        except (LaunchError, KubeError) as error:
            raise ExecFailed(f"its environment cannot be determined: {error}") from None

    def _begin(self) -> None:
        with contextlib.suppress(OSError):  # Without a home, nothing starts; see `_start`.
            self._make_home()
        self._started = instant((self.pod.get("status") or {}).get("startTime")) or self._now()
        self._came = self._now()
        self._runs.adopt(self._names)

    def _make_home(self) -> None:
        known = self.home.exists
        self.home.create(self.pod)
        if not known:
            self._note_lost_runs()

    def _note_lost_runs(self) -> None:
        """Record runs that were reported but left no trace, so that they are not repeated."""
        for each in container_statuses(self.pod.get("status") or {}):
            if each.get("containerID"):
                self._runs.lose(each["name"], each.get("restartCount") or 0)

    async def _turn(self) -> bool:
        """Take the current steps. True if the pod has ended and the server knows."""
        self._wake.clear()
        self._retry_at = None
        steps, histories = self._steps()
        if steps.start and self._runs.false_start():
            self._try_again()
        elif steps.start:
            await self._start(steps.start, histories)
            steps, histories = self._steps()
        for name in steps.stop:
            self._runs.stop(name, self._grace_s())
        if steps.retry_at is not None:
            self._look_again(steps.retry_at)
        if steps.over:
            await self._execs.end()
            # All its processes have ended. The server may reuse its resources after the report.
            self._shared.allocations.release(self.uid)
            self._shared.cgroups.remove(self.uid)
        return await self._report(steps, histories) and steps.over

    def _steps(self) -> tuple[Steps, dict[str, RunHistory]]:
        histories = self._runs.histories(self._names)
        stopping = self._stopping()
        now = self._now()
        backoff = self._shared.settings.crash_backoff
        return next_steps(
            self.pod["spec"], histories, now, stopping=stopping, backoff=backoff
        ), histories

    def _stopping(self) -> bool:
        limit_s = self.pod["spec"].get("activeDeadlineSeconds")
        if limit_s is not None:
            end = self._started + limit_s
            if self._now() >= end:
                self._failure = self._failure or _DEADLINE
            else:
                self._look_again(end)
        ending = self.gone or bool(self.pod["metadata"].get("deletionTimestamp"))
        return ending or self._failure is not None

    def _grace_s(self) -> float:
        """The remaining grace period, which starts with the deletion."""
        whole = min(grace_period_s(self.pod), self._shared.settings.max_grace_s)
        end = instant(self.pod["metadata"].get("deletionTimestamp"))
        return whole if end is None else max(0.0, min(whole, end - self._now()))

    async def _start(self, names: list[str], histories: dict[str, RunHistory]) -> None:
        try:
            if not self.home.exists:
                self._make_home()
                self._look_again(self._now())  # Runs may be known now that have been lost.
                return
            ready = self._take_devices()
        except OSError as error:
            self._await_machine(names, error)
            return
        if not ready:
            for name in names:
                self._waiting[name] = ("ContainerCreating", "its devices are not free yet")
            self._look_again(self._now() + 0.5)
            return
        by_name = {each["name"]: each for each in containers(self.pod["spec"])}
        for name in names:
            await self._start_one(by_name[name], histories[name])

    def _take_devices(self) -> bool:
        if self._grant is None:
            node = self.pod["spec"].get("nodeName") or ""
            whole = {name: nano // 10**9 for name, nano in requests_of(self.pod["spec"]).items()}
            self._grant = self._shared.allocations.take(self.uid, node, whole)
        return self._grant is not None

    async def _start_one(self, container: Json, history: RunHistory) -> None:
        name, last = container["name"], history.current
        backoff = self._shared.settings.crash_backoff
        streak = backoff.streak_after(last) if last is not None else 0
        self._waiting.pop(name, None)
        try:
            launch = await self._launch.launch(self.pod, container, self._grant or {})
            if self._stopping():
                return  # The pod was deleted while its configuration was fetched.
            self._runs.start(name, launch, streak)
            self._launches[name] = launch
        except LaunchError as error:
            if error.permanent:
                self._runs.fail(name, error)
            else:
                self._waiting[name] = (error.reason, error.message)
                self._try_again()
        except OSError as error:
            if is_temporary(error):
                self._await_machine([name], error)
            else:
                self._runs.fail(name, LaunchError("StartError", str(error)))
        except KubeError as error:
            self._waiting[name] = ("ContainerCreating", str(error))
            self._try_again()

    def _await_machine(self, names: list[str], error: OSError) -> None:
        """Try again later to start containers for which the machine lacks something."""
        for name in names:
            self._waiting[name] = ("ContainerCreating", f"this machine lacks something: {error}")
        self._try_again()
        lack = f"cannot start {', '.join(names)} yet, this machine lacks something: {error}"
        self._warn(_SHORTAGE, lack)

    def _warn(self, reason: str, message: str) -> None:
        """Record an event about the pod."""
        if self._shared.recorder is not None:
            about = {"apiVersion": "v1", "kind": "Pod"} | self.pod
            self._shared.recorder.record(about, reason, message, warning=True)

    def _tell_disruption(self, reason: str, message: str) -> None:
        """Record events about the pod and its controller, whose other pods people look at later."""
        self._warn(reason, message)
        found = controller_of(self.pod)
        if found is not None and self._shared.recorder is not None:
            meta = self.pod["metadata"]
            about = {**found, "metadata": {"namespace": meta.get("namespace"), **found}}
            said = f"Pod {meta['name']}: {message}"
            self._shared.recorder.record(about, reason, said, warning=True)

    async def _report(self, steps: Steps, histories: dict[str, RunHistory]) -> bool:
        """Write the status if it changed. True if the server has it, or has no such pod."""
        seen = Observed(
            histories=histories,
            waiting=self._waiting,
            over=steps.over,
            failure=self._failure,
            started=self._started,
            notes=self._launch.notes or self._earlier_notes,
            ip=self._shared.settings.host_ip,
        )
        status = pod_status(self.pod, seen, self._now())
        if self.gone or status == self._reported or self._is_no_news(status):
            return True
        body = {"metadata": {"uid": self.uid}, "status": status}
        try:
            answer = await self._shared.client.patch(
                PODS, key_of(self.pod), body, kind=PatchType.STRATEGIC, subresource="status"
            )
        except KubeError as error:
            return await self._vanished(error) and steps.over
        self._reported = status
        self._failures = 0
        if condition_status(status, DISRUPTION):
            self._tell_disruption(status["reason"], status["message"])
        self._shared.pods.wrote(answer)
        return True

    def _is_no_news(self, status: Json) -> bool:
        """Whether to delay the first report: most containers are running by then."""
        first = self._reported is None and status["phase"] == "Pending" and not self._waiting
        if first and self._now() < self._came + _LULL_S:
            self._look_again(self._came + _LULL_S)
            return True
        return False

    async def _vanished(self, error: KubeError) -> bool:
        """After a rejected write: whether the pod is gone, or the write is worth a retry."""
        self._try_again()
        if not isinstance(error, NotFound | Conflict):
            _log.warning("reporting pod %s failed: %s", key_of(self.pod), error)
            return False
        try:
            found = await self._shared.client.get(PODS, key_of(self.pod))
        except NotFound:
            self.gone = True
        except KubeError:
            return False
        else:
            self.gone = found["metadata"].get("uid") != self.uid
        return self.gone

    async def _leave(self) -> None:
        """Complete the deletion of a pod, and delete its local files."""
        while not self.gone and self.pod["metadata"].get("deletionTimestamp"):
            try:
                await self._shared.client.delete(PODS, key_of(self.pod), uid=self.uid, grace_s=0)
            except (NotFound, Conflict):
                self.gone = True
            except KubeError as error:
                _log.warning("deleting pod %s failed: %s", key_of(self.pod), error)
                await self._shared.clock.sleep(1)
            else:
                return

    async def _rest(self) -> None:
        if self._retry_at is None:
            await self._wake.wait()
            return
        left_s = max(0.0, self._retry_at - self._now())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), left_s)

    def _look_again(self, at: float) -> None:
        self._retry_at = at if self._retry_at is None else min(at, self._retry_at)

    def _try_again(self) -> None:
        self._failures += 1
        self._look_again(self._now() + _RETRY.wait(self._failures) / 1000)

    def _now(self) -> float:
        return self._shared.clock.now().timestamp()
