# SPDX-License-Identifier: Apache-2.0
"""How the whole installation is set up to decide: gates and the configuration that matters here."""

from __future__ import annotations

from kuota.api.gates import Gate, Gates

from .model import Struct

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"


class AdmissionFairSharing(Struct):
    """How fast the use of a LocalQueue is forgotten. `resource_weights` default to 1."""

    half_life_s: float = 0.0
    sampling_s: float = 300.0
    resource_weights: dict[str, float] = {}


class Policy(Struct):
    """Settings of one engine. They never change while it lives.

    `fair_sharing` lists the preemption strategies; None means fair sharing is off.
    `by_eviction` ranks a workload whose pods were not ready in time by its eviction.
    """

    gates: Gates = Gates()
    fair_sharing: tuple[str, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    ignore_undeclared: bool = False
    block_until_ready: bool = False
    by_eviction: bool = True

    def on(self, gate: Gate) -> bool:
        return self.gates.on(gate)
