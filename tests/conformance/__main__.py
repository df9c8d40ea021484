# SPDX-License-Identifier: Apache-2.0
"""`python -m conformance [--alter] DIR [GROUP…]`: compare Kuota with recorded cases.

A case fails when Kuota disagrees with what it expects, and also when its adapter leaves an input
unread or an expectation uncompared without having declared why. With --alter, a case that passes
also has some of its expected values changed, one at a time, and fails if that goes unnoticed.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from .alter import Alterations
from .case import Case, Difference, Run, load
from .negative import negative
from .registry import Adapter, Exercise, load_adapters, undeclared
from .skips import Skips

NEGATIVE = "a negative: a rejection, or nothing happens"


def judge(case: Case, suites: Mapping[str, Adapter], skips: Skips) -> tuple[str, str]:
    """The verdict on one case, PASS, FAIL or SKIP, and the words that go with it."""
    record, adapter = case.record, suites.get(case.suite)
    reason = skips.reason(
        case.suite, case.id, record.get("inputs") or (), record.get("expected") or {}
    )
    known = adapter.functions if adapter is not None else {}
    unknown = [str(each) for each in case.opaque or () if str(each) not in known]
    if reason is None and unknown:
        reason = f"opaque: {', '.join(unknown)}"
    if reason is not None:
        return "SKIP", reason
    if adapter is None:
        return "FAIL", f"no adapter for suite {case.suite}"
    for run in case.runs():
        difference = _difference(adapter, run)
        if difference:
            return "FAIL", difference
    return "PASS", ""


def _difference(adapter: Adapter, run: Run) -> str:
    gates = [f"{name}={on}" for name, on in sorted(dict.items(run.gates))]
    under = f" [{' '.join(gates)}]" if gates else ""
    try:
        adapter.compare(run)
    except Difference as difference:
        return f"{difference}{under}"
    except Exception as error:  # an adapter or product bug fails its case, not the whole run
        return f"{type(error).__name__}: {error}{under}"
    left = undeclared(adapter, run)
    return f"unread: {', '.join(left)}{under}" if left else ""


def report(
    cases: Iterable[Case],
    suites: Mapping[str, Adapter],
    skips: Skips,
    alterations: Alterations | None = None,
) -> Counter[str]:
    """Print one line a case. Count verdicts, and what the cases that pass exercise."""
    tally: Counter[str] = Counter()
    for case in cases:
        verdict, words = judge(case, suites, skips)
        unnoticed = alterations.unnoticed(case) if alterations and verdict == "PASS" else []
        if unnoticed:
            verdict, words = "FAIL", f"passes with other values: {', '.join(unnoticed)}"
        tally[verdict] += 1
        if verdict == "PASS":
            tally[_exercised(case, suites[case.suite])] += 1
        print(f"{verdict} {case.id}{': ' if words else ''}{words}")
    return tally


def _exercised(case: Case, adapter: Adapter) -> str:
    return NEGATIVE if negative(case) else adapter.exercises


def main(argv: list[str]) -> int:
    alter = "--alter" in argv
    argv = [each for each in argv if each != "--alter"]
    if not argv or not Path(argv[0]).is_dir():
        print("usage: python -m conformance [--alter] DIR [GROUP ...]", file=sys.stderr)
        return 2
    logging.disable(logging.CRITICAL)  # some cases are about failures, which Kuota logs
    try:
        suites = load_adapters()
        cases = load(Path(argv[0]), tuple(argv[1:]))
        tally = report(cases, suites, Skips(), Alterations(suites) if alter else None)
    finally:
        logging.disable(logging.NOTSET)
    if not tally:
        print(f"no cases under {' '.join(argv)}", file=sys.stderr)
        return 2
    for exercised in (*Exercise, NEGATIVE):
        if tally[exercised]:
            words = "case exercises" if tally[exercised] == 1 else "cases exercise"
            print(f"{tally[exercised]} passed {words} {exercised}")
    print(f"{tally['PASS']} passed, {tally['FAIL']} failed, {tally['SKIP']} skipped")
    return 1 if tally["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
