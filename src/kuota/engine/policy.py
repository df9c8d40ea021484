# SPDX-License-Identifier: Apache-2.0
"""The policy of an engine: feature gates and the configuration that affects decisions."""

from __future__ import annotations

from kuota.api.gates import Gate, Gates

from .model import Struct

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"


class AdmissionFairSharing(Struct):
    """How fast the usage of a LocalQueue decays. `resource_weights` default to 1."""

    half_life_s: float = 0.0
    sampling_s: float = 300.0
    resource_weights: dict[str, float] = {}


class Policy(Struct):
    """The settings of one engine. They never change during its lifetime.

    `fair_sharing` lists the preemption strategies; None disables fair sharing. `by_eviction` orders
    a workload that was evicted because of a PodsReady timeout by the time of its eviction. `sizes`
    are resources whose amounts are reported with binary suffixes, as memory is.
    """

    gates: Gates = Gates()
    fair_sharing: tuple[str, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    ignore_undeclared: bool = False
    block_until_ready: bool = False
    by_eviction: bool = True
    sizes: frozenset[str] = frozenset()

    def on(self, gate: Gate) -> bool:
        return gate in self.gates.enabled
