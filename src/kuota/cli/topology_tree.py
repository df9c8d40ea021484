# SPDX-License-Identifier: Apache-2.0
"""Draws the trees of `kuota topology` in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from kuota.view.topology import (
    DomainResource,
    DomainRow,
    FlavorRow,
    SelectedWorkload,
    TopologyReport,
)

from .output import counted, show_table

MAX_DOMAINS = 100
"""Lower levels are hidden until a tree has at most this many domains."""
_ALWAYS = ("cpu", "memory")
_HIDDEN = ("ephemeral-storage", "hugepages-", "pods", "attachable-volumes-")
_BAR = 8


def draw(report: TopologyReport, *, level: str = "", wide: bool = False) -> None:
    """Print all trees, and the placement of the selected workload."""
    chosen = report.workload
    shown = [each for each in report.flavors if chosen is None or each.flavor in chosen.flavors]
    if chosen is not None:
        _workload(chosen)
    for at, each in enumerate(shown):
        if at or chosen is not None:
            click.echo()
        _flavor(each, level, wide=wide, only_placed=chosen is not None)
    if not report.flavors:
        click.echo("No flavor has a topology: set spec.topologyName of a ResourceFlavor.")
    if report.notes:
        click.echo()
    for note in report.notes:
        click.echo(f"Note: {note}")


def _workload(row: SelectedWorkload) -> None:
    where = f"on flavor {', '.join(row.flavors)}"
    placed = f"{counted(row.pods, 'pod')} placed {where}" if row.flavors else "no pods are placed"
    named = "" if row.name.endswith(f"/{row.workload}") else f" (Workload {row.workload})"
    click.echo(f"{row.name}{named}: {placed}")
    if row.waiting:
        click.echo(f"  {row.waiting}")


def _flavor(row: FlavorRow, level: str, *, wide: bool, only_placed: bool) -> None:
    click.echo(f"Topology {row.topology}, flavor {row.flavor}: {counted(row.nodes, 'node')}")
    click.echo(f"Levels: {' > '.join(row.levels)}\n")
    depth = _depth(row, level, only_placed)
    names = _resources(row.domains, wide)
    header = ["domain", "nodes", *(f"{name} free" for name in names), "pods"]
    header += ["workload"] if only_placed else []
    lines = list(_lines(row.domains, names, depth, only_placed=only_placed))
    if lines:
        show_table(header, lines)
    else:
        click.echo("No node has the labels of the flavor and of all levels.")
    if depth < len(row.levels):
        hidden = f"{row.levels[depth]}: {_count(row.domains, depth)}"
        add = f"--level {row.levels[-1]}"
        click.echo(f"\nDomains that are not shown, by level: {hidden}. Add them with {add}")
    if row.unused and not only_placed:
        click.echo()
        for each in row.unused:
            click.echo(f"Node {each.name} is not used: it {each.reason}.")


def _depth(row: FlavorRow, level: str, only_placed: bool) -> int:
    """Return how many levels are shown."""
    if level:
        if level not in row.levels:
            raise click.BadParameter(
                f"topology {row.topology} has no level {level}; it has {', '.join(row.levels)}",
                param_hint="--level",
            )
        return row.levels.index(level) + 1
    depth = len(row.levels)
    while depth > 1 and not only_placed and _count(row.domains, depth - 1) > MAX_DOMAINS:
        depth -= 1
    return depth


def _count(domains: Sequence[DomainRow], depth: int) -> int:
    """Return the number of domains of one level."""
    return len(domains) if not depth else sum(_count(each.children, depth - 1) for each in domains)


def _resources(domains: Sequence[DomainRow], wide: bool) -> list[str]:
    names = dict.fromkeys(found.resource for each in domains for found in each.resources)
    return [e for e in names if wide or e in _ALWAYS or not e.startswith(_HIDDEN)]


def _lines(
    domains: Sequence[DomainRow], names: Sequence[str], depth: int, *, only_placed: bool
) -> Iterator[list[str]]:
    """Yield the cells of each domain and of those below it, down to a depth."""
    for each in _shown(domains, only_placed):
        yield _cells(each, each.name, names, only_placed)
        yield from _below(each, "", names, depth - 1, only_placed)


def _below(
    parent: DomainRow, indent: str, names: Sequence[str], depth: int, only_placed: bool
) -> Iterator[list[str]]:
    shown = _shown(parent.children, only_placed) if depth > 0 else []
    for each in shown:
        last = each is shown[-1]
        branch, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield _cells(each, f"{indent}{branch}{each.name}", names, only_placed)
        yield from _below(each, indent + rest, names, depth - 1, only_placed)


def _shown(domains: Sequence[DomainRow], only_placed: bool) -> list[DomainRow]:
    return [each for each in domains if each.workload or not only_placed]


def _cells(row: DomainRow, label: str, names: Sequence[str], only_placed: bool) -> list[str]:
    known = {each.resource: each for each in row.resources}
    amounts = [_amount(known.get(name)) for name in names]
    cells = [label, str(row.nodes), *amounts, str(row.pods)]
    return [*cells, _ranks(row)] if only_placed else cells


def _amount(found: DomainResource | None) -> str:
    """Return a bar of usage, and the free part of the total."""
    if found is None:
        return "-"
    full = min(_BAR, -(-found.used_percent * _BAR // 100))
    return f"{'█' * full}{'░' * (_BAR - full)} {found.free} of {found.total}"


def _ranks(row: DomainRow) -> str:
    return "; ".join(
        f"{each.pod_set}: {counted(each.count, 'pod')}, rank{'s' * (each.count > 1)} {each.ranks}"
        for each in row.workload
    )
