# SPDX-License-Identifier: Apache-2.0
"""`python -m conformance DIR [GROUP…]`: judge Kuota by recorded cases, one line a case."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .case import Case, Difference, Run, load
from .registry import Adapter, load_adapters
from .skips import Skips


def judge(case: Case, suites: dict[str, Adapter], skips: Skips) -> tuple[str, str]:
    """The verdict on one case, PASS, FAIL or SKIP, and the words that go with it."""
    reason = skips.reason(case.suite, case.id, case.record.get("inputs") or ())
    if reason is None and case.opaque:
        reason = f"opaque: {', '.join(map(str, case.opaque))}"
    if reason is not None:
        return "SKIP", reason
    adapter = suites.get(case.suite)
    if adapter is None:
        reason = skips.not_yet(case.suite)
        return ("SKIP", reason) if reason else ("FAIL", f"no adapter for suite {case.suite}")
    for run in case.runs():
        difference = _difference(adapter, run)
        if difference:
            return "FAIL", difference
    return "PASS", ""


def _difference(adapter: Adapter, run: Run) -> str:
    gates = f" [{' '.join(f'{k}={v}' for k, v in run.gates.items())}]" if run.gates else ""
    try:
        adapter(run)
    except Difference as difference:
        return f"{difference}{gates}"
    except Exception as error:  # an adapter or product bug fails its case, not the whole run
        return f"{type(error).__name__}: {error}{gates}"
    return ""


def report(cases: Iterable[Case], suites: dict[str, Adapter], skips: Skips) -> Counter[str]:
    tally: Counter[str] = Counter()
    for case in cases:
        result, words = judge(case, suites, skips)
        tally[result] += 1
        print(f"{result} {case.id}{': ' if words else ''}{words}")
    return tally


def main(argv: list[str]) -> int:
    if not argv or not Path(argv[0]).is_dir():
        print("usage: python -m conformance DIR [GROUP ...]", file=sys.stderr)
        return 2
    tally = report(load(Path(argv[0]), tuple(argv[1:])), load_adapters(), Skips())
    if not tally:
        print(f"no cases under {' '.join(argv)}", file=sys.stderr)
        return 2
    print(f"{tally['PASS']} passed, {tally['FAIL']} failed, {tally['SKIP']} skipped")
    return 1 if tally["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
