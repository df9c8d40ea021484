# SPDX-License-Identifier: Apache-2.0
"""A Job and its pods in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kuota.api.base import Json
from kuota.runner.instants import time_text
from kuota.runner.job_pods import FINALIZER, INDEX
from kuota.runner.job_rules import JobActions, ReplacementBackoff, step

ENDED = ("Succeeded", "Failed")


class Crash(Exception):
    """The controller dies here."""


def job(name: str = "work", **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "uid": "job-uid"},
        "spec": {"template": template, **spec},
        "status": {},
    }


class World:
    """What an API server and a kubelet would keep. `crash` is asked before each write."""

    def __init__(self, job: Json, backoff: ReplacementBackoff = ReplacementBackoff()) -> None:  # noqa: B008
        self.job = job
        self.backoff = backoff
        self.now = 1_000_000_000.0
        self.pods: dict[str, Json] = {}
        self.ends: dict[str, str] = {}
        self.removed = False
        self.most_active = 0
        self.writes = 0
        self.crash: Callable[[], bool] = lambda: False
        self._made = 0

    @property
    def status(self) -> Json:
        status: Json = self.job["status"]
        return status

    def conditions(self) -> dict[str, str]:
        """The reasons of the conditions that are true."""
        return {
            each["type"]: each["reason"]
            for each in self.status.get("conditions") or ()
            if each["status"] == "True"
        }

    def next_step(self) -> JobActions:
        return step(self.job, list(self.pods.values()), self.now, self.backoff)

    def settle(self) -> JobActions:
        """Carry steps out until nothing changes; the last one tells when to look again."""
        for _ in range(100):
            before = (repr(self.job), repr(self.pods))
            now = self.next_step()
            self._carry_out(now)
            if before == (repr(self.job), repr(self.pods)):
                return now
        raise AssertionError("the steps never come to rest")

    def _carry_out(self, now: JobActions) -> None:
        for pod in now.create:
            self._write()
            self._create(pod)
        for view in now.drop:
            self._write()
            self._release(view.name)
            self.delete(view.name)
        for view in now.end:
            self._write()
            self.delete(view.name)
        if now.create or now.drop or now.end:
            return
        if now.status is not None and now.status != self.job["status"]:
            self._write()
            self.job["status"] = now.status
        for view in now.release:
            self._write()
            self._release(view.name)
        if now.remove:
            self.removed = True

    def _write(self) -> None:
        if self.crash():
            raise Crash
        self.writes += 1

    def _create(self, pod: Json) -> None:
        self._made += 1
        name = f"{pod['metadata']['generateName']}{self._made}"
        uid = f"uid-{self._made}"
        pod["metadata"].update(name=name, uid=uid, creationTimestamp=time_text(self.now))
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        self.most_active = max(self.most_active, len(self.active()))

    def _release(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        finalizers = [each for each in pod["metadata"]["finalizers"] if each != FINALIZER]
        self.pods[name] = {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}
        self._vanish(name)

    def delete(self, name: str) -> None:
        """Delete a pod: it stays until it has ended and nothing holds it."""
        pod = self.pods[name]
        meta = {**pod["metadata"], "deletionTimestamp": time_text(self.now)}
        self.pods[name] = {**pod, "metadata": meta}
        if pod["status"]["phase"] == "Pending":
            self.end(name, "Failed", code=143)
        self._vanish(name)

    def _vanish(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        meta = pod["metadata"]
        ended = pod["status"]["phase"] in ENDED
        if ended and meta.get("deletionTimestamp") and not meta["finalizers"]:
            del self.pods[name]

    def run(self, name: str) -> None:
        """The pod's containers start."""
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready]}
        self.pods[name] = {**self.pods[name], "status": status}

    def end(self, name: str, phase: str, code: int = 1, **more: Any) -> None:
        """The pod's containers end."""
        terminated = {
            "exitCode": 0 if phase == "Succeeded" else code,
            "finishedAt": time_text(self.now),
        }
        containers = [{"name": "main", "state": {"terminated": terminated}}]
        status = {"phase": phase, "containerStatuses": containers, **more}
        pod = self.pods[name]
        self.pods[name] = {**pod, "status": status}
        self.ends[pod["metadata"]["uid"]] = phase
        self._vanish(name)

    def active(self) -> list[str]:
        """Pods that have not ended and are not being deleted, in the order they were made."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["status"]["phase"] not in ENDED and not pod["metadata"].get("deletionTimestamp")
        ]

    def terminating(self) -> list[str]:
        return [
            name
            for name, pod in self.pods.items()
            if pod["status"]["phase"] not in ENDED and pod["metadata"].get("deletionTimestamp")
        ]

    def indexes(self) -> dict[int, str]:
        """The active pod of each index."""
        return {self._index(name): name for name in self.active()}

    def _index(self, name: str) -> int:
        return int(self.pods[name]["metadata"]["annotations"][INDEX])

    def suspend(self, value: bool) -> None:
        self.job = {**self.job, "spec": {**self.job["spec"], "suspend": value}}

    def each_ends(self, phase: str, **more: Any) -> Iterator[str]:
        """End every active pod so, one after another."""
        for name in self.active():
            self.end(name, phase, **more)
            yield name
