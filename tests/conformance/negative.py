# SPDX-License-Identifier: Apache-2.0
"""Which cases are negatives: those that expect a rejection, or that nothing happens.

A negative passes on code that does nothing as well, so the run counts it apart from the others.
"""

from __future__ import annotations

from typing import Any

from .case import Case, Json

_ERRORS = ("wantErr", "wantError", "wantValidationErrs", "wantRunError")
_STATES = {
    "wantWorkload": ("workload",),
    "wantWorkloads": ("workloads", "admittedWorkloads"),
    "wantJob": ("job",),
    "wantLocalQueue": ("localQueue",),
}


def negative(case: Case) -> bool:
    """Whether the case expects an error, nothing at all, or the objects just as they were."""
    expected: Json = case.record.get("expected") or {}
    if any(expected.get(name) for name in _ERRORS):
        return True
    states = {name: given for name, given in _STATES.items() if name in expected}
    if any(value for name, value in expected.items() if name not in states):
        return False
    inputs = case.record.get("inputs") or {}
    return all(
        not expected[name]
        or any(_by_name(expected[name]) == _by_name(inputs.get(each)) for each in given)
        for name, given in states.items()
    )


def _by_name(state: Any) -> Any:
    """Objects by name, so that their order does not count."""
    if not isinstance(state, list):
        return state
    return {
        (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in state
    }
