# SPDX-License-Identifier: Apache-2.0
"""Histories as lists of steps: facts, cycles and waiting."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from hypothesis import strategies as st

from engine.strategies import Kinds, clusters, crowds, facts, policies
from kuota.api.gates import Gate, Gates
from kuota.engine.facts import EngineObject, Fact, ObjectStored
from kuota.engine.policy import Policy


class Do(StrEnum):
    CYCLE = "cycle"
    SETTLE = "settle"
    WAIT = "wait"


Step = Do | Fact
"""Something the world does, or something that happens to it."""


class Life(msgspec.Struct, frozen=True):
    policy: Policy
    cluster: tuple[EngineObject, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        """What happens, one step a line, without the hundred gates of the policy."""
        gates = self.policy.gates
        changed = [
            f"{each}={gates.on(each)}" for each in Gate if gates.on(each) != Gates().on(each)
        ]
        lines = [f"gates {changed}, {self.policy.fair_sharing}"]
        return "\n".join([*lines, *map(_shown, (*self.cluster, *self.steps))])

    @property
    def facts(self) -> list[Fact]:
        """All that is told in it, without the cycles between."""
        applied: list[Fact] = [ObjectStored(value=value) for value in self.cluster]
        return applied + [each for each in self.steps if not isinstance(each, Do)]


@st.composite
def lives(draw: st.DrawFn, kinds: Kinds, *, turns: int = 4, events: int = 4) -> Life:
    """In every turn a crowd comes, cycles run or the world comes to rest, and things happen."""
    steps: list[Step] = []
    for _ in range(turns):
        steps += [ObjectStored(value=each) for each in draw(crowds(kinds, 6))]
        steps += draw(st.sampled_from(([Do.SETTLE], [Do.CYCLE, Do.WAIT, Do.CYCLE], [])))
        steps += draw(st.lists(facts(kinds), max_size=events))
    return Life(draw(policies()), tuple(draw(clusters(kinds))), (*steps, Do.SETTLE))


def _shown(step: EngineObject | Step) -> str:
    """The step without what is as usual."""
    value = step.value if isinstance(step, ObjectStored) else step
    if not isinstance(value, msgspec.Struct):
        return str(value)
    usual = {f.name: f.default for f in msgspec.structs.fields(value)}
    given = {k: v for k, v in msgspec.structs.asdict(value).items() if v != usual[k]}
    given.pop("scheduling_hash", None)
    return f"{type(value).__name__} {given}"
