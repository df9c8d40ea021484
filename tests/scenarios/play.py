# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario: executes its commands one by one, and returns their results.

The clock starts at 0 and advances one second with every new workload; `at T` advances it further.
Every ClusterQueue has a LocalQueue of the same name, and every mentioned flavor exists.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec.structs import replace

from build import flavor, key, local_queue, namespace, running
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.engine.decisions import Wait
from kuota.engine.facts import EngineObject, ObjectDeleted
from kuota.engine.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, Policy
from kuota.sim.simulation import Simulation
from scenarios import report
from scenarios.words import (
    Words,
    changed,
    cohort_of,
    flavor_of,
    job_of,
    queue_of,
    words,
)

Lines = list[str]
_STRATEGIES = {"final": FINAL_SHARE, "initial": INITIAL_SHARE}
_KINDS: dict[str, type[EngineObject]] = {
    "queue": ClusterQueue,
    "cohort": Cohort,
    "flavor": ResourceFlavor,
    "local": LocalQueue,
}


class Play:
    def __init__(self) -> None:
        self._policy = Policy()
        self._gates: dict[str, bool] = {}
        self._queues: dict[str, Words] = {}
        self._commands: dict[str, Callable[[Lines], Lines | None]] = {
            "fair-sharing": self._fair_sharing,
            "block-until-ready": self._block,
            "gate": self._gate,
            "flavor": self._flavor,
            "check": self._check,
            "cohort": self._cohort,
            "queue": self._queue,
            "update": self._update,
            "local": self._local,
            "submit": self._submit,
            "run": self._run,
            "change": self._change,
            "finish": self._finish,
            "delete": self._delete,
            "stop": self._stop,
            "resume": self._resume,
            "at": self._at,
            "cycle": self._cycle,
            "settle": self._settle,
            "why": self._why,
            "tree": self._tree,
        }

    def do(self, line: str) -> Lines:
        command, *parts = line.split()
        return self._commands[command](parts) or []

    @cached_property
    def world(self) -> Simulation:
        world = Simulation(replace(self._policy, gates=Gates.of(self._gates, check=False)))
        world.store(namespace())
        return world

    # How the world is set up

    def _fair_sharing(self, parts: Lines) -> None:
        self._policy = replace(
            self._policy, fair_sharing=tuple(_STRATEGIES[each] for each in parts)
        )

    def _block(self, parts: Lines) -> None:
        self._policy = replace(self._policy, block_until_ready=True)

    def _gate(self, parts: Lines) -> None:
        self._gates[parts[0]] = parts[1] == "on"

    # What there is

    def _flavor(self, parts: Lines) -> None:
        self.world.store(flavor_of(parts[0], words(parts[1:])))

    def _check(self, parts: Lines) -> None:
        self.world.store(AdmissionCheck(name=parts[0], active="inactive" not in parts))

    def _cohort(self, parts: Lines) -> None:
        self.world.store(cohort_of(parts[0], words(parts[1:])))

    def _queue(self, parts: Lines) -> None:
        name, *rest = parts
        self._queues[name] = words(rest)
        self._tell_queue(name)
        self.world.store(local_queue(name))

    def _update(self, parts: Lines) -> None:
        """`update queue NAME …`: what is not mentioned stays."""
        _, name, *rest = parts
        self._queues[name] |= words(rest)
        self._tell_queue(name)

    def _tell_queue(self, name: str) -> None:
        spec = queue_of(name, self._queues[name])
        for each in (name for group in spec.groups for name in group.flavors):
            if each not in self.world.engine.state.flavors:
                self.world.store(flavor(each))
        self.world.store(spec)

    def _local(self, parts: Lines) -> None:
        given = words(parts[1:])
        stop = given.get("stop", "None")
        self.world.store(local_queue(parts[0], given.get("queue", ""), stop_policy=stop))

    def _submit(self, parts: Lines) -> None:
        self.world.advance(self.world.now + 1)
        workload = self._workload(parts)
        self.world.store(workload)

    def _run(self, parts: Lines) -> None:
        """A workload that has quota already, whether or not there is any."""
        self.world.advance(self.world.now + 1)
        on = next((each.removeprefix("on=") for each in parts if each.startswith("on=")), "")
        workload = self._workload([each for each in parts if not each.startswith("on=")])
        self.world.store(running(workload, workload.queue, self.world.now, on))

    def _workload(self, parts: Lines) -> Workload:
        queue, _, name = parts[0].partition("/")
        found = job_of(queue, name, parts[1:])
        return replace(found, created=found.created or self.world.now)

    # What happens

    def _change(self, parts: Lines) -> None:
        old = self.world.engine.state.workloads[_key(parts[0])]
        self.world.store(changed(old, words(parts[1:])))

    def _finish(self, parts: Lines) -> None:
        self.world.finish(_key(parts[0]))

    def _delete(self, parts: Lines) -> None:
        kind, name = parts
        at = key(name) if kind == "local" else Key("", name)
        self.world.engine.apply(ObjectDeleted(kind=_KINDS[kind], key=at), self.world.now)

    def _stop(self, parts: Lines) -> None:
        self._update([*parts, "stop=Hold"])

    def _resume(self, parts: Lines) -> None:
        self._update([*parts, "stop=None"])

    def _at(self, parts: Lines) -> None:
        self.world.advance(float(parts[0]))

    # What is answered

    def _cycle(self, parts: Lines) -> Lines:
        decisions = self.world.cycle().decisions
        return [line for each in decisions for line in report.decision_lines(each, self.world)] or [
            "nothing"
        ]

    def _settle(self, parts: Lines) -> Lines:
        """What came of it and who still waits; or who keeps coming and going, if it never ends."""
        story = self.world.settle()
        if story.restless:
            workloads = self.world.engine.state.workloads
            return [f"restless {report.name(workloads[each])}" for each in story.restless]
        done = [each for each in story.decisions if not isinstance(each, Wait)]
        waits = [each for each in self.world.engine.last.values() if isinstance(each, Wait)]
        lines = [
            line for each in (*done, *waits) for line in report.decision_lines(each, self.world)
        ]
        return lines or ["nothing"]

    def _why(self, parts: Lines) -> Lines:
        return report.why(_key(parts[0]), self.world)

    def _tree(self, parts: Lines) -> Lines:
        return list(report.tree(self.world))


def _key(text: str) -> Key:
    return key(text.rpartition("/")[2])
