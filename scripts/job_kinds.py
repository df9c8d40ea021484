# SPDX-License-Identifier: Apache-2.0
"""Writes the table of job kinds in docs/job-kinds.md from the code; --check compares it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from kuota.api.base import Json
from kuota.bridge.jobs.kind import ElasticJob, JobKind, JobWithReclaimablePods
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.bridge.jobs.template_kind import TemplateKind
from kuota.up.unsupported_kinds import runs_here

PAGE = Path(__file__).parents[1] / "docs" / "job-kinds.md"
BEGIN = "<!-- job kinds: written by make map -->"
END = "<!-- end of job kinds -->"
COLUMNS = (
    "Kind",
    "Integration",
    "Pod sets",
    "Suspended by",
    "Topology ranks",
    "Elastic",
    "Reclaimable pods",
    "Partial admission",
    "MultiKueue",
    "Runs on one machine",
)


def main() -> None:
    before = PAGE.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    after = f"{head}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"
    if after == before:
        return
    if "--check" in sys.argv[1:]:
        sys.exit("docs/job-kinds.md is out of date: run make map")
    PAGE.write_text(after, encoding="utf-8")


def table() -> str:
    lines = [_row(COLUMNS), _row("---" for _ in COLUMNS)]
    return "\n".join([*lines, *(_row(_cells(each)) for each in BUILT_IN)])


def _row(cells: Iterator[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(kind: JobKind) -> Iterator[str]:
    yield f"{kind.gvk.kind} `{kind.api_version}`"
    yield f"`{kind.framework}`"
    yield kind.described_pod_sets
    yield _suspension(kind)
    yield _yes(kind.ranked)
    yield _yes(isinstance(kind, ElasticJob))
    yield _yes(isinstance(kind, JobWithReclaimablePods))
    yield _yes(kind.partial_admission)
    yield _dispatched(kind)
    yield _yes(runs_here(kind.group_kind))


def _suspension(kind: JobKind) -> str:
    if kind.described_suspension or not isinstance(kind, TemplateKind):
        return kind.described_suspension
    return f"`{'.'.join(map(str, kind.suspend_path))}`"


def _dispatched(kind: JobKind) -> str:
    """Return how the status of a copy in another cluster comes back."""
    dispatch = kind.dispatch()
    if dispatch is None:
        return ""
    example: Json = {"metadata": {}, "spec": {}, "status": {}}
    copied = dispatch.status(example, example, "").status is not None
    return "yes" if copied else "yes, without status"


def _yes(value: bool) -> str:
    return "yes" if value else ""


if __name__ == "__main__":
    main()
