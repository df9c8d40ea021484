# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's webhooks: rejected fields and the types of their errors."""

from __future__ import annotations

from collections import Counter

from kuota.api.base import Json
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.rules import webhook_faults, webhook_warnings

from ..case import Run, check, same
from ..recorder import whole
from ..registry import Exercise, suite


def _judge(run: Run, new: str, old: str = "") -> None:
    """Compare kinds and fields of faults, in any order, as Kueue's own tests do."""
    faults = _faults(run, new, old)
    agree(run.expected.get("wantErr"), faults)
    warnings = webhook_warnings(whole(run.inputs[new]))
    wanted = run.expected.get("wantWarnings") or []
    check(len(warnings) == len(wanted), f"want warnings {wanted}, got {[*map(str, warnings)]}")


def _faults(run: Run, new: str, old: str = "") -> list[FieldError]:
    before = whole(run.inputs[old]) if old else None
    return webhook_faults(whole(run.inputs[new]), before, Gates.of(whole(run.gates), check=False))


def agree(wanted: list[Json] | None, faults: list[FieldError]) -> None:
    expected = Counter(f"{each['field']}: {each['type']}" for each in wanted or ())
    actual = Counter(f"{each.path}: {each.type}" for each in faults)
    same(dict(expected), dict(actual))


@suite("webhooks/TestValidateWorkload", exercises=Exercise.PATH)
def workload(run: Run) -> None:
    _judge(run, "workload")


@suite("webhooks/TestValidateWorkloadUpdate", exercises=Exercise.PATH)
def workload_update(run: Run) -> None:
    _judge(run, "after", "before")


@suite(
    "webhooks/TestValidateClusterQueue",
    exercises=Exercise.PATH,
    ignores={
        "expected.wantDetail": "the text of a fault, which is Kuota's own",
        "expected.wantBadValue": "part of the text of a fault",
    },
)
def cluster_queue(run: Run) -> None:
    _judge(run, "clusterQueue")


@suite("webhooks/TestValidateClusterQueueUpdate", exercises=Exercise.PATH)
def cluster_queue_update(run: Run) -> None:
    _judge(run, "newClusterQueue", "oldClusterQueue")


@suite("webhooks/TestValidateResourceFlavor", exercises=Exercise.PATH)
def resource_flavor(run: Run) -> None:
    _judge(run, "rf")


@suite(
    "webhooks/TestValidateTotalFlavors",
    "webhooks/TestValidateTotalCoveredResources",
    "webhooks/TestValidateFlavorResourceCombinations",
    exercises=Exercise.PATH,
    ignores={
        f"inputs.{name}": "a number by which the test builds the ClusterQueue of the case"
        for name in ("numFlavors", "numResources", "numCoveredRes")
    },
)
def totals(run: Run) -> None:
    faults = _faults(run, "clusterQueue")
    check(bool(faults) == run.expected["wantErr"], f"faults: {[str(each) for each in faults]}")
