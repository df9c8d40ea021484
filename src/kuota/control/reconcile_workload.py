# SPDX-License-Identifier: Apache-2.0
"""Brings one Workload further, as `kuota.bridge.lifecycle` says it should go."""

from __future__ import annotations

import random
from collections.abc import Callable

from kuota.api.base import Key
from kuota.bridge.draft import Seen
from kuota.bridge.lifecycle import steps
from kuota.bridge.lifecycle_view import Rules, WorkloadView
from kuota.engine.engine import Engine
from kuota.engine.reasons import WaitReason
from kuota.kube.clock import Clock

from .effects import Sender
from .notices import READINESS, Notices
from .world import World

JITTER = 0.0001
"""The largest part of a back-off that is added to it, so that not all come back at once."""


class WorkloadReconciler:
    """Reads the world and what the engine believes; changes neither.

    Courtesies go to `notices`; `words` tells why a class of a ClusterQueue did not fit.
    """

    def __init__(
        self,
        world: World,
        engine: Engine,
        sender: Sender,
        clock: Clock,
        rules: Rules,
        notices: Notices,
        words: Callable[[str, str], str],
    ) -> None:
        self._world = world
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._rules = rules
        self._notices = notices
        self._words = words

    async def reconcile(self, key: Key) -> float | None:
        """One pass; the seconds after which to look again, None if only a change calls for it."""
        return await self._pass(key, hasty=False)

    async def tell(self, key: Key) -> None:
        """A pass that also says what is only a courtesy."""
        await self._pass(key, hasty=True)

    async def _pass(self, key: Key, *, hasty: bool) -> float | None:
        async with self._sender.turns.of(key):
            held = self._world.workload(key)
            if held is None or held.value is None:
                return None
            self._forget_wishes(held.value)
            result = steps(self.view(held.value), self._clock.now().timestamp())
            if result.courtesy and not hasty:
                self._notices.want(key, self.tell)
            else:
                await self._sender.send(result.effects)
        return result.again_s

    def _forget_wishes(self, seen: Seen) -> None:
        """Who holds quota does not wait, and of what is over there is nothing to tell."""
        over = seen.true("Finished")
        if over or seen.reserved:
            self._notices.drop(seen.key)
        if over:
            self._notices.drop(seen.key, READINESS)

    def view(self, seen: Seen) -> WorkloadView:
        """What the pass looks at."""
        obj, state = seen.obj, self._engine.state
        local = Key(obj.metadata.namespace, obj.spec.queue_name)
        local_queue = state.local_queues.get(local)
        name = local_queue.cluster_queue if local_queue is not None else ""
        if seen.reserved and obj.status.admission is not None:
            name = obj.status.admission.cluster_queue
        queue = state.queues.get(name)
        known = state.workloads.get(obj.key)
        return WorkloadView(
            seen=seen,
            rules=self._rules,
            local_queue=local_queue,
            local_queue_deleting=self._deleting(local),
            cluster_queue=queue.spec if queue is not None else None,
            cluster_queue_active=state.pops(name),
            namespace_matches=queue is None or state.admits(name, obj.metadata.namespace),
            faults=known.faults if known is not None else (),
            failed=self._told_of_its_kind(obj.key),
            failed_words=self._words(name, known.class_id) if known is not None else "",
            jitter=random.random() * JITTER,
        )

    def _deleting(self, local_queue: Key) -> bool:
        held = self._world.local_queues.get(local_queue)
        return held is not None and bool(held.json["metadata"].get("deletionTimestamp"))

    def _told_of_its_kind(self, key: Key) -> WaitReason | None:
        """Why it is parked without having been tried: one alike did not fit.

        A workload that was tried itself is told so by the driver, and better.
        """
        pending = self._engine.queues.queue_of(key)
        if pending is None or key in self._engine.last:
            return None
        return pending.parked_reason(key)
