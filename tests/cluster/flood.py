# SPDX-License-Identifier: Apache-2.0
"""Many Jobs at once, and their invariants, which hold despite any failure.

All Jobs finish. None is admitted twice: each has one Workload, which is never evicted, and its pods
run once. Neither reservations nor existing pods ever exceed the quota.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from cluster.stage import Stage
from control.objects import condition, flavor, job, local_queue, queue
from kuota.api.base import Json
from kuota.kube.errors import KubeError
from kuota.kube.resources import CLUSTER_QUEUES, PODS, WORKLOADS, key_of

CPUS = 6
MEDDLE_S = 0.005
AUDIT_S = 0.02


class Flood:
    """Jobs of one or two pods on a queue that has room for few of them.

    With `spare_pods` there may be more pods than Jobs ask for: Kubernetes' own controller of Jobs,
    when the answer to a creation is lost, may make a pod again before it hears of the first.
    """

    def __init__(self, stage: Stage, jobs: int, *, spare_pods: bool = False) -> None:
        self._spare_pods = spare_pods
        self.names = [f"j{number:03d}" for number in range(jobs)]
        self._stage = stage
        self._excess: list[list[Json]] = []
        self._audits = 0
        self._workloads: dict[str, set[str]] = {}
        self._pods: dict[str, set[str]] = {}

    async def begin(self) -> None:
        """Create everything; returns when the server has taken it all."""
        stage = self._stage
        stage.kubelet.brief = True
        self._auditor = asyncio.create_task(self._audit())
        stage.observe(WORKLOADS, self._workload)
        stage.kubelet.pods.observe(self._pod)
        await stage.apply(flavor(), queue("cq", CPUS), local_queue())
        for name in self.names:
            await stage.apply(job(name, parallelism=self._size(name), completions=self._size(name)))

    async def until(self, finished: int) -> None:
        """Wait until so many of the Jobs are over."""
        await self._stage.holds(lambda: self.finished() >= finished)

    def finished(self) -> int:
        return sum(_true(each, "Finished") for each in self._stage.workloads())

    async def end(self) -> None:
        """Wait for the last Job, then check that all went well."""
        stage = self._stage
        await self.until(len(self.names))
        said = Counter(stage.says(name, "Finished") for name in self.names)
        assert Counter({"True/Succeeded": len(self.names)}) == said
        assert dict.fromkeys(self.names, 1) == _sizes(self._workloads)
        assert {"": len(self.names)} == Counter(stage.says(n, "Evicted") for n in self.names)
        asked, made = {name: self._size(name) for name in self.names}, _sizes(self._pods)
        others = {name: made.get(name, 0) for name in asked if made.get(name) != asked[name]}
        assert all(self._spare_pods and others[name] > asked[name] for name in others), others
        self._auditor.cancel()
        assert [] == self._excess
        assert self._audits
        await stage.shows((0, 0, 0), self._counts)
        await stage.shows("0", self._used)

    async def _audit(self) -> None:
        """Count what is given away, and what runs, again and again. A list is of one moment, which
        what an informer shows is not while it catches up.
        """
        space = self._stage.names.namespace
        while True:
            with suppress(KubeError):
                audits = ((WORKLOADS, _reserved), (PODS, _alive))
                for resource, total in audits[:1] if self._spare_pods else audits:
                    found = (await self._stage.client.list(resource, space)).items
                    self._audits += 1
                    if total(found) > CPUS:
                        self._excess.append(found)
            await asyncio.sleep(AUDIT_S)

    def _counts(self) -> tuple[int, int, int]:
        status = self._stage.get(CLUSTER_QUEUES, "cq")["status"]
        names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
        pending, reserving, admitted = (int(status.get(name, 0)) for name in names)
        return pending, reserving, admitted

    def _used(self) -> str:
        status = self._stage.get(CLUSTER_QUEUES, "cq")["status"]
        return str(status["flavorsReservation"][0]["resources"][0]["total"])

    def _size(self, name: str) -> int:
        return 1 + int(name[1:]) % 2

    def _workload(self, old: Json | None, new: Json | None) -> None:
        if new is None or key_of(new).namespace != self._stage.names.namespace:
            return
        for owner in new["metadata"].get("ownerReferences") or ():
            self._workloads.setdefault(owner["name"], set()).add(new["metadata"]["uid"])

    def _pod(self, old: Json | None, new: Json | None) -> None:
        if new is not None and key_of(new).namespace == self._stage.names.namespace:
            name = new["metadata"]["ownerReferences"][0]["name"]
            self._pods.setdefault(name, set()).add(new["metadata"]["uid"])


def _reserved(workloads: Iterable[Json]) -> int:
    """How many CPUs are given away, one to each pod that is not done."""
    holding = [e for e in workloads if _true(e, "QuotaReserved") and not _true(e, "Finished")]
    pods = sum(each["spec"]["podSets"][0]["count"] for each in holding)
    done = (each["status"].get("reclaimablePods") or () for each in holding)
    return int(pods - sum(each["count"] for some in done for each in some))


def _alive(pods: Iterable[Json]) -> int:
    return sum(each["status"].get("phase") not in ("Succeeded", "Failed") for each in pods)


def _true(obj: Json, type_: str) -> bool:
    return bool(condition(obj, type_).get("status") == "True")


def _sizes(found: dict[str, set[str]]) -> dict[str, int]:
    return {name: len(uids) for name, uids in found.items()}


async def meddle(stage: Stage) -> None:
    """Write on every Workload of the story, one after the other, again and again."""
    for number in itertools.count():
        body = {"metadata": {"annotations": {"example.com/meddled": str(number)}}}
        for each in stage.workloads():
            if not _true(each, "Finished"):
                await stage.client.patch(WORKLOADS, key_of(each), body)
            # Nobody can write on what is written on without a pause.
            await asyncio.sleep(MEDDLE_S)
        await asyncio.sleep(MEDDLE_S)
