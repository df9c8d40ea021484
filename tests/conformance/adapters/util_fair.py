# SPDX-License-Identifier: Apache-2.0
"""Suites of util/admissionfairsharing: usage and weight of LocalQueues."""

from __future__ import annotations

from conformance import world
from conformance.case import Run, refused, same
from conformance.registry import suite
from kuota.api.base import Key
from kuota.api.quantity import as_float, parse
from kuota.engine.consumed_usage import ConsumedUsage, weighted_usage
from kuota.engine.policy import AdmissionFairSharing

from .driver import unknown_weight


@suite("util/admissionfairsharing-TestCalculateUsageWithDRA")
def usage(run: Run) -> None:
    parts = [
        {name: parse(text) for name, text in (run.inputs.get(part) or {}).items()}
        for part in ("consumed", "penalty")
    ]
    weights = {name: float(text) for name, text in (run.inputs.get("resWeights") or {}).items()}
    actual = weighted_usage(parts, weights, as_float(run.inputs["lqWeight"]))
    same(float(run.expected["wantUsage"]), actual)


@suite("util/admissionfairsharing-TestResolveLQWeight")
def weight(run: Run) -> None:
    """The weight is seen in the usage of one core: that is 1 / weight."""
    usage, key = ConsumedUsage(AdmissionFairSharing()), Key("ns", "lq")
    if run.inputs.get("localQueue"):
        spec = world.local_queue(run.inputs["localQueue"])
        key = spec.key
        usage.set_weight(key, spec.weight)
    if run.inputs.get("getErr"):
        same(run.inputs["getErr"]["error"], "other error")
        unknown = unknown_weight()
        refused(run.expected["wantErr"], unknown)
        same(float(run.expected["wantWeight"]), 0.0 if unknown else 1.0)
        return
    refused(run.expected["wantErr"], None)
    usage.restore(key, {"cpu": parse("1")}, run.now)
    wanted = float(run.expected["wantWeight"])
    same(1 / wanted if wanted else float("inf"), usage.usage(key))
