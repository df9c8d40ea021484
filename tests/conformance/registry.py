# SPDX-License-Identifier: Apache-2.0
"""The adapter of each suite, what it exercises, and the inputs that it ignores, with reasons."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from . import adapters
from .case import Run
from .recorder import matches


class Exercise(StrEnum):
    """What a case that passes shows."""

    PATH = "a product path"
    FUNCTION = "a pure function"


@dataclass(frozen=True)
class Adapter:
    """Feeds the cases of a suite to Kuota.

    `compare` raises Difference when a run disagrees. `ignores` maps patterns of paths, such as
    `inputs.shared.*` or `expected.want.**.message`, to the reason why Kuota has nothing to do with
    them. Every other input must be read, and every other expectation compared. `functions` says
    what the Go functions do that records of the suite name as opaque; others are skipped.
    """

    compare: Callable[[Run], None]
    exercises: Exercise = Exercise.FUNCTION
    ignores: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)


# What holds for every suite.
EVERYWHERE = {
    "config.note": "a remark for the reader of the case",
    "inputs.note": "a remark for the reader of the case",
    "expected.**.message": "messages are Kuota's own; the reason beside them is compared",
    "expected.wantMessage": "messages are Kuota's own; the reason beside them is compared",
    "expected.**.lastTransitionTime": (
        "the clock's; compared where Kueue's tests compare it, which are those of its scheduler"
    ),
    "expected.**.resourceVersion": "the API server's, which Kueue's tests ignore too",
    "expected.**.error": "the text of a Go error; that there is an error is compared",
    "expected.**.detail": "the text of a fault; Kueue's tests ignore it too",
    "expected.**.badValue": "part of the text of a fault; Kueue's tests ignore it too",
    "gates.WorkloadRequestUseMergePatch": (
        "chooses how Kueue's client writes a status; Kuota sends merge patches either way"
    ),
    **{
        f"gates.{name}": "selects an implementation inside Kueue; docs/migrate.md lists these gates"
        for name in (
            "RemoveFinalizersWithStrictPatch",
            "TASCacheNodeMatchResults",
            "TASCacheTopologyTree",
            "TASCachingRemainingResources",
            "VectorizedResourceRequests",
        )
    },
    "expected.**.origin": "how the Go library found a fault; Kueue's tests ignore it too",
}

SUITES: dict[str, Adapter] = {}
Compare = Callable[[Run], None]


def suite(
    *names: str,
    exercises: Exercise = Exercise.FUNCTION,
    ignores: dict[str, str] | None = None,
    functions: dict[str, str] | None = None,
) -> Callable[[Compare], Compare]:
    """Register an adapter for suites named `<group>/<file stem>`."""

    def register(compare: Compare) -> Compare:
        for name in names:
            if name in SUITES:
                raise ValueError(f"suite {name} has two adapters")
            SUITES[name] = Adapter(
                compare, exercises, EVERYWHERE | (ignores or {}), functions or {}
            )
        return compare

    return register


def undeclared(adapter: Adapter, run: Run) -> list[str]:
    """What the adapter has neither read nor declared to be without meaning for Kuota."""
    declared = [tuple(pattern.split(".")) for pattern in adapter.ignores]
    return [
        ".".join(path)
        for path in run.unread()
        if not any(matches(path, pattern) for pattern in declared)
    ]


def load_adapters() -> dict[str, Adapter]:
    for module in pkgutil.iter_modules(adapters.__path__):
        importlib.import_module(f"{adapters.__name__}.{module.name}")
    return SUITES
