# SPDX-License-Identifier: Apache-2.0
"""What holds at every moment of any life: objects come, change and go, and cycles decide."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from build import key
from engine.properties.witness import Witness
from engine.strategies import CALM, SOUND, WORKLOADS, clusters, crowds, facts, policies
from kuota.engine.facts import Fact, Known, Stored
from kuota.engine.model import Workload
from kuota.engine.policy import Policy


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.witness = Witness(Policy())

    @initialize(policy=policies(), cluster=clusters(SOUND), crowd=crowds(SOUND, 6))
    def begin(self, policy: Policy, cluster: list[Known], crowd: list[Workload]) -> None:
        self.witness = Witness(policy, [*cluster, *crowd])

    @rule(several=crowds(SOUND, 4))
    def submit(self, several: list[Workload]) -> None:
        for each in several:
            if each.key not in self.witness.engine.state.workloads:
                self.witness.apply(Stored(value=each))

    @rule(fact=facts(SOUND))
    def happen(self, fact: Fact) -> None:
        self.witness.apply(fact)

    @rule(name=st.sampled_from(WORKLOADS))
    def finish(self, name: str) -> None:
        self.witness.world.finish(key(name))

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        self.witness.world.advance(self.witness.world.now + seconds)

    @rule()
    def cycle(self) -> None:
        """No admission takes more than quotas and limits allow.

        In this world victims leave with the decision, so there is no exception for room that
        they have yet to give up. Nodes that were over their limit before, because quota was cut
        under running work, may stay so but not get worse.
        """
        before = self.witness.definition()
        self.witness.world.cycle()
        assert [] == self.witness.definition().overdrawn(before)

    @rule()
    def settle(self) -> None:
        """With no new facts the world comes to rest, and whoever waits then was told why."""
        self.witness.world.settle()
        self.witness.check_who_waits_knows_why()

    @invariant()
    def every_node_has_the_quota_and_usage_of_the_definition(self) -> None:
        self.witness.check_numbers()

    @invariant()
    def nobody_is_lost(self) -> None:
        self.witness.check_nobody_is_lost()


Life.TestCase.settings = CALM
TestLife = Life.TestCase
