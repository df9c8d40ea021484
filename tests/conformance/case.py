# SPDX-License-Identifier: Apache-2.0
"""A recorded case, its runs, and the comparison of results.

Only adapters know suites by name, and only `skips.toml` knows cases by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from .recorder import Inputs, recorded, unread, whole
from .recorder import Path as JsonPath

Json = dict[str, Any]


class Difference(AssertionError):
    """What the case expects is not what happened. The message is the first difference."""


@dataclass(frozen=True)
class Run:
    """One set of gates under which the inputs of a case must give `expected`.

    Inputs, expectations, config and gates are records: they note what the adapter reads.
    `named_gates` are those that the table of the test names, even at their default.
    """

    id: str
    suite: str
    inputs: Json
    expected: Json
    config: Json
    gates: dict[str, bool]
    now: float
    observed: Json = field(default_factory=dict)
    named_gates: dict[str, bool] = field(default_factory=dict)

    def unread(self) -> Iterator[JsonPath]:
        """The paths of what the adapter has not read so far."""
        for name in ("inputs", "expected", "config", "gates"):
            yield from ((name, *rest) for rest in unread(getattr(self, name)))


@dataclass(frozen=True)
class Case:
    id: str
    suite: str
    record: Json

    @property
    def opaque(self) -> Any:
        return self.record.get("opaque")

    def runs(self) -> Iterator[Run]:
        """The main record, the gate sets it also holds with, and each variant."""
        main = self.record.get("expected") or {}
        yield self._run(self.record.get("featureGates"), main)
        for gates in self.record.get("alsoHoldsWith") or ():
            yield self._run(gates, main)
        for variant in self.record.get("variants") or ():
            yield self._run(variant.get("featureGates"), main | (variant.get("expected") or {}))

    def _run(self, gates: Mapping[str, bool] | None, expected: Json) -> Run:
        record = self.record
        return Run(
            id=self.id,
            suite=self.suite,
            inputs=Inputs(record.get("inputs") or {}),
            expected=recorded(expected),
            config=recorded(record.get("config") or {}),
            gates=recorded(gates or {}),
            now=seconds(record.get("now")),
            observed=record.get("observed") or {},
            named_gates=record.get("tableFeatureGates") or {},
        )


def seconds(stamp: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 stamp; 0 when there is none."""
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def load(root: Path, only: tuple[str, ...] = ()) -> Iterator[Case]:
    """Every case under `root`, by file name then line. The suite is `<group>/<file stem>`."""
    for path in sorted(root.glob("*/*.jsonl")):
        if only and path.parent.name not in only:
            continue
        suite = f"{path.parent.name}/{path.stem}"
        for number, stream in enumerate(path.read_text().splitlines(), start=1):
            if stream.strip():
                record = json.loads(stream)
                yield Case(record.get("id") or f"{suite}/{number:03}", suite, record)


def same(expected: Any, actual: Any, at: str = "") -> None:
    """Raise Difference at the first place where the two JSON values disagree.

    Empty equals absent: null, "", 0, false, [] and {} are one and the same, as in Go's encoding.
    """
    expected, actual = whole(expected), whole(actual)
    if not expected and not actual:
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted({*expected, *actual}):
            same(expected.get(key), actual.get(key), f"{at}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            want = expected[index] if index < len(expected) else None
            got = actual[index] if index < len(actual) else None
            if (index < len(expected)) != (index < len(actual)):
                raise Difference(f"{at}[{index}]: want {brief(want)}, got {brief(got)}")
            same(want, got, f"{at}[{index}]")
    elif expected != actual:
        raise Difference(f"{at or '.'}: want {brief(expected)}, got {brief(actual)}")


def refused(wanted: Any, error: object, reason: str = "") -> None:
    """Check that an error occurred exactly when one is wanted. Its text is that of Go, not ours.

    `reason` is that of the API error which this one stands for.
    """
    want = whole(wanted)
    check(bool(want) == bool(error), f"want error {brief(want)}, got {error or None}")
    if isinstance(want, dict):
        same(want.get("apiReason"), reason, ".apiReason")


def check(claim: bool, message: str) -> None:
    if not claim:
        raise Difference(message)


def brief(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:297] + "..."
