# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's own webhooks: which fields are refused, and as what kind of fault."""

from __future__ import annotations

from collections import Counter

from kuota.api.base import Json
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.rules import webhook_faults, webhook_warnings

from ..case import Run, check, same
from ..registry import suite


def _judge(run: Run, new: str, old: str = "") -> None:
    """Compare kinds and fields of faults, in any order, as Kueue's own tests do."""
    faults = _faults(run, new, old)
    agree(run.expected.get("wantErr"), faults)
    warnings = webhook_warnings(run.inputs[new])
    wanted = run.expected.get("wantWarnings") or []
    check(len(warnings) == len(wanted), f"want warnings {wanted}, got {[*map(str, warnings)]}")


def _faults(run: Run, new: str, old: str = "") -> list[FieldError]:
    before = run.inputs[old] if old else None
    return webhook_faults(run.inputs[new], before, Gates.of(run.gates, check=False))


def agree(wanted: list[Json] | None, faults: list[FieldError]) -> None:
    expected = Counter(f"{each['field']}: {each['type']}" for each in wanted or ())
    actual = Counter(f"{each.path}: {each.type}" for each in faults)
    same(dict(expected), dict(actual))


@suite("webhooks/TestValidateWorkload")
def workload(run: Run) -> None:
    _judge(run, "workload")


@suite("webhooks/TestValidateWorkloadUpdate")
def workload_update(run: Run) -> None:
    _judge(run, "after", "before")


@suite("webhooks/TestValidateClusterQueue")
def cluster_queue(run: Run) -> None:
    _judge(run, "clusterQueue")


@suite("webhooks/TestValidateClusterQueueUpdate")
def cluster_queue_update(run: Run) -> None:
    _judge(run, "newClusterQueue", "oldClusterQueue")


@suite("webhooks/TestValidateResourceFlavor")
def resource_flavor(run: Run) -> None:
    _judge(run, "rf")


@suite(
    "webhooks/TestValidateTotalFlavors",
    "webhooks/TestValidateTotalCoveredResources",
    "webhooks/TestValidateFlavorResourceCombinations",
)
def totals(run: Run) -> None:
    faults = _faults(run, "clusterQueue")
    check(bool(faults) == run.expected["wantErr"], f"faults: {[str(each) for each in faults]}")
