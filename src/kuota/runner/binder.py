# SPDX-License-Identifier: Apache-2.0
"""Carries out the decisions of `binding`: binds pods to nodes, or reports why it cannot.

This is the only scheduler of the control plane, so it reserves resources immediately, before the
watch confirms a binding.
"""

from __future__ import annotations

import asyncio
import logging

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Conflict, KubeError, NotFound
from kuota.kube.events import Recorder
from kuota.kube.requests import PatchType
from kuota.kube.resources import PODS, key_of

from .binding import Bind, BoundPod, Candidate, Decision, SchedulableNode, decisions, placed
from .instants import time_text

SCHEDULER = "default-scheduler"
_RETRY = Backoff(base=500, cap=30_000)
"""Delays before the outcome of a failed write is looked up, in milliseconds."""
_log = logging.getLogger(__name__)


class Binder:
    """Binds pods while `run` runs. The caller reports every change of pods and nodes."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder | None = None) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._offers: list[SchedulableNode] = []
        self._pending: dict[Key, Candidate] = {}
        self._placed: dict[Key, BoundPod] = {}
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    def set_offers(self, offers: list[SchedulableNode]) -> None:
        """Set the current nodes."""
        if offers != self._offers:
            self._offers = offers
            self._wake.set()

    def pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old
        if pod is None:
            return
        key = key_of(pod)
        if new is None or is_terminated(new):
            self._pending.pop(key, None)
            if self._placed.pop(key, None) is not None and self._pending:
                self._wake.set()
        elif (new.get("spec") or {}).get("nodeName"):
            self._pending.pop(key, None)
            if key not in self._placed:
                self._placed[key] = placed(new)
        elif key not in self._placed:
            self._consider(key, new)

    def _consider(self, key: Key, pod: Json) -> None:
        known = self._pending.get(key)
        spec, meta = pod["spec"], pod["metadata"]
        ours = (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
        if not ours or meta.get("deletionTimestamp") or spec.get("schedulingGates"):
            self._pending.pop(key, None)
        elif known is None or known.pod["spec"] != spec:
            self._pending[key] = Candidate(pod)
            self._wake.set()
        else:
            known.pod = pod

    async def run(self) -> None:
        """Decide whenever something may have changed, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._round()

    async def _round(self) -> None:
        waiting = list(self._pending.values())
        made = decisions(waiting, self._offers, self._placed.values())
        for decision in made:
            if isinstance(decision, Bind):
                # Reserve before the next await, so that no other pod gets these resources.
                found = self._pending.pop(decision.key)
                self._placed[decision.key] = BoundPod(decision.node, found.pod, found.requests)
        async with asyncio.TaskGroup() as writes:
            for each in made:
                writes.create_task(self._carry_out(each))

    async def _carry_out(self, decision: Decision) -> None:
        try:
            if isinstance(decision, Bind):
                await self._bind(decision)
            else:
                await self._explain(decision.key, decision.message)
        except Exception as error:
            _complain(decision.key, error)
            assert self._tasks is not None
            self._tasks.create_task(self._find_out(decision))

    async def _find_out(self, decision: Decision) -> None:
        """Look up the outcome of a failed write: the pod may be bound although no response arrived.

        Its resources stay reserved until the outcome is known.
        """
        key, failures, pod = decision.key, 0, None
        while True:
            failures += 1
            await self._clock.sleep(_RETRY.wait(failures) / 1000)
            try:
                pod = await self._client.get(PODS, key)
                break
            except NotFound:
                break
            except Exception as error:
                _complain(key, error)
        if isinstance(decision, Bind) and not (pod and pod["spec"].get("nodeName")):
            self._placed.pop(key, None)
        self._pending.pop(key, None)
        self._wake.set()
        if pod is not None:
            self.pod_changed(None, pod)

    async def _bind(self, decision: Bind) -> None:
        key = decision.key
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
        }
        # Read before the write: a short pod may have ended when the response arrives.
        found = self._placed.get(key)
        await self._client.create(PODS, binding, subresource="binding")
        if found is not None:
            self._say(found.pod, "Scheduled", f"Successfully assigned {key} to {decision.node}")

    async def _explain(self, key: Key, message: str) -> None:
        """Report why the pod waits, once per reason."""
        found = self._pending.get(key)
        if found is None or found.reported == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": time_text(self._clock.now().timestamp()),
        }
        found.reported = message
        await self._client.patch(
            PODS,
            key,
            {"metadata": {"uid": found.uid}, "status": {"conditions": [condition]}},
            kind=PatchType.STRATEGIC,
            subresource="status",
        )
        self._say(found.pod, "FailedScheduling", message, warning=True)

    def _say(self, pod: Json, reason: str, note: str, *, warning: bool = False) -> None:
        """Defer the event. The conditions of the pod report the same immediately."""
        if self._recorder is not None:
            self._recorder.record(
                pod, reason, note, warning=warning, controller=SCHEDULER, can_wait=True
            )


def _complain(key: Key, error: Exception) -> None:
    if not isinstance(error, KubeError):
        report("binding", error, f"binding pod {key} failed")
    elif not isinstance(error, NotFound | Conflict):
        _log.warning("binding pod %s failed: %s", key, error)
