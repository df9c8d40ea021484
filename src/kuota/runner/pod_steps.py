# SPDX-License-Identifier: Apache-2.0
"""Decides the next steps of the containers of a pod: start, restart, stop, or finish. Pure.

Init containers run one after another, then all containers run together. Sidecars, which are init
containers that always restart, keep running beside them and stop last.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.base import Json

SIDECAR = "Always"


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a container, starting with attempt 0. Times are seconds since 1970.

    `streak` counts the short runs before this one, which determine the delay of the next one.
    """

    attempt: int
    streak: int = 0
    started: float | None = None
    finished: float | None = None
    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    disruption: str = ""
    """The reason of the disruption that ended the run; "" if the container ended by itself."""

    @property
    def running(self) -> bool:
        return self.started is not None and self.finished is None

    @property
    def ended(self) -> bool:
        return self.finished is not None


class RunHistory(msgspec.Struct, frozen=True):
    """The current run of a container and the previous one."""

    current: ContainerRun | None = None
    previous: ContainerRun | None = None


class CrashBackoff(msgspec.Struct, frozen=True):
    """The delay before a container restarts: none the first time, then increasing."""

    first_s: float = 10
    longest_s: float = 300
    calm_s: float = 600
    """A run of this length does not count as a crash."""

    def streak_after(self, run: ContainerRun) -> int:
        lasted = (run.finished or 0) - (run.started or run.finished or 0)
        return 0 if lasted >= self.calm_s else run.streak + 1

    def retry_at(self, run: ContainerRun) -> float:
        """When the container may restart after this run."""
        if self.streak_after(run) <= 1:
            return run.finished or 0.0
        wait_s = min(self.longest_s, self.first_s * 2.0 ** min(run.streak - 1, 32))
        return (run.finished or 0.0) + wait_s


class Steps(msgspec.Struct, kw_only=True):
    """The next steps. `over` if no container runs or will run; `retry_at` if one may later."""

    start: list[str] = []
    stop: list[str] = []
    retry_at: float | None = None
    over: bool = False


Histories = Mapping[str, RunHistory]
_NEVER = RunHistory()


def next_steps(
    spec: Json, histories: Histories, now: float, *, stopping: bool, backoff: CrashBackoff
) -> Steps:
    """The steps to take now. `stopping` means that the pod must end."""
    if stopping or init_failed(spec, histories):
        return _winding_down(spec, histories, mains_too=True)
    steps = Steps()
    if not _initialize(spec, histories, now, backoff, steps):
        return steps
    going_on = False
    for container in spec.get("containers") or ():
        run = histories.get(container["name"], _NEVER).current
        if run is None or not run.ended:
            going_on = True
            if run is None:
                steps.start.append(container["name"])
        elif restarts(spec, container, run):
            going_on = True
            _again(container["name"], run, now, backoff, steps)
    return steps if going_on else _winding_down(spec, histories, mains_too=False)


def init_failed(spec: Json, histories: Histories) -> bool:
    """Whether an init container has failed permanently."""
    if (spec.get("restartPolicy") or "Always") != "Never":
        return False
    for container in spec.get("initContainers") or ():
        run = histories.get(container["name"], _NEVER).current
        if not _is_sidecar(container) and run and run.ended and run.code:
            return True
    return False


def disrupted(spec: Json, histories: Histories) -> ContainerRun | None:
    """The run with which a disruption ended a pod that is over; None if nothing disrupted it."""
    inits = (each for each in spec.get("initContainers") or () if not _is_sidecar(each))
    for container in (*inits, *(spec.get("containers") or ())):
        run = histories.get(container["name"], _NEVER).current
        if run is not None and run.disruption:
            return run
    return None


def restarts(spec: Json, container: Json, run: ContainerRun) -> bool:
    """Whether the container restarts after this end."""
    if _is_sidecar(container):
        return True
    policy = spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and run.code != 0)


def initialized(spec: Json, histories: Histories) -> bool:
    """Whether every init container has completed or started."""
    return all(_init_done(each, histories) for each in spec.get("initContainers") or ())


def _is_sidecar(container: Json) -> bool:
    return bool(container.get("restartPolicy") == SIDECAR)


def _init_done(container: Json, histories: Histories) -> bool:
    history = histories.get(container["name"], _NEVER)
    run = history.current
    if _is_sidecar(container):
        # A sidecar that has started once lets others begin, even while it restarts.
        return history.previous is not None or (run is not None and run.started is not None)
    return run is not None and run.ended and run.code == 0


def _initialize(
    spec: Json, histories: Histories, now: float, backoff: CrashBackoff, steps: Steps
) -> bool:
    """Advance the init containers; True if the other containers may run."""
    for container in spec.get("initContainers") or ():
        name = container["name"]
        run = histories.get(name, _NEVER).current
        if run is None:
            steps.start.append(name)
        elif run.ended and (_is_sidecar(container) or run.code):
            _again(name, run, now, backoff, steps)
        if not _init_done(container, histories):
            return False
    return True


def _again(name: str, run: ContainerRun, now: float, backoff: CrashBackoff, steps: Steps) -> None:
    at = backoff.retry_at(run)
    if now >= at:
        steps.start.append(name)
    else:
        steps.retry_at = at if steps.retry_at is None else min(at, steps.retry_at)


def _winding_down(spec: Json, histories: Histories, *, mains_too: bool) -> Steps:
    """Stop containers and init containers first, then sidecars in reverse order."""
    first = [each["name"] for each in spec.get("containers") or ()] if mains_too else []
    sidecars: list[str] = []
    for container in spec.get("initContainers") or ():
        group = sidecars if _is_sidecar(container) else first
        group.append(container["name"])
    alive = [name for name in first if _alive(histories, name)]
    if alive:
        return Steps(stop=alive)
    for name in reversed(sidecars):
        if _alive(histories, name):
            return Steps(stop=[name])
    return Steps(over=True)


def _alive(histories: Histories, name: str) -> bool:
    run = histories.get(name, _NEVER).current
    return run is not None and not run.ended
