# SPDX-License-Identifier: Apache-2.0
"""`kuota plan`: predicts from manifests which workloads are admitted, which wait, and why.

Exit status: 0 if there is a plan, even if everything waits; 1 if the manifests are invalid; 2 for
wrong usage or a file that cannot be read.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import NoReturn

import click
import msgspec

from kuota.api.config.load import checked
from kuota.api.config.shapes import Configuration
from kuota.api.faults import Invalid
from kuota.api.gates import Gates, resolved
from kuota.bridge.settings import policy
from kuota.engine.state import State
from kuota.sim.faults import time_faults
from kuota.sim.scenario import Scenario, load_scenario
from kuota.sim.timeline import played
from kuota.view.build import Builder, PastEvents, Subject
from kuota.view.plan import Plan, PlannedWorkload

from . import output as printed
from .check import FAULTY, UNREADABLE, show
from .connect import PATH, filename_option
from .findings import CheckResult, Finding, finding, inspected
from .manifests import load
from .plugins import load_plugins


@click.command("plan")
@click.argument("files", nargs=-1, type=PATH)
@filename_option()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A configuration file of Kueue.",
)
@click.option(
    "--feature-gates", default="", metavar="NAME=BOOL,…", help="Feature gates, as for Kueue."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
)
@click.option(
    "--explain",
    default="",
    metavar="NAMESPACE/NAME",
    help="Explain one job or workload: what was tried, what is not preempted, what would help.",
)
def command(
    files: tuple[str, ...],
    filenames: tuple[str, ...],
    config: str | None,
    feature_gates: str,
    output: str,
    explain: str,
) -> None:
    """Show which workloads would get quota, which would wait, and why, without a cluster.

    Reads queues, cohorts, flavors, Nodes, Workloads and jobs of all kinds, in either API version.
    Workloads with quota in their status count as running; all others are submitted in the order of
    the files.

    \b
    Two annotations on a Job or Workload set times, which pass instantly:
      kuota.dev/submit-after: "30s"   it is submitted later
      kuota.dev/runs-for: "2m"        it ends; the default is to run forever

    \b
    Examples:
      kuota plan -f examples/three-teams
      kuota plan -f queues.yaml -f job.yaml --explain team-a/train
      kubectl get cq,lq,rf,cohorts,workloads -A -o yaml | kuota plan -f - -o json
    """
    paths = (*filenames, *files)
    if not paths:
        raise click.UsageError("nothing to plan: give a file with -f FILE, or - for standard input")
    _, plan = planned(paths, config, feature_gates, output)
    _show(_row(plan, explain) if explain else plan, output)


def planned(
    paths: Sequence[str], config: str | None = None, feature_gates: str = "", output: str = "table"
) -> tuple[State, Plan]:
    """Plan manifests, and return the final state too. Ends the command if they are invalid."""
    settings, gates = _settings(config, feature_gates)
    scenario, notes = _scene(paths, settings, gates, output)
    return _plan(scenario, notes, settings, gates)


def _settings(config: str | None, flag: str) -> tuple[Configuration | None, Gates]:
    """The configuration, if any, and the gates; ends the command if they are invalid."""
    load_plugins()
    try:
        if config is None:
            return None, resolved(flag, None)
        with click.open_file(config, encoding="utf-8") as file:
            return checked(file.read(), flag)
    except Invalid as error:
        if config is None:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None
        for each in error.errors:
            click.echo(f"{config}: {each}")
        sys.exit(FAULTY)
    except UnicodeDecodeError:
        raise click.FileError(config or "", "is not UTF-8 text") from None


def _scene(
    paths: Sequence[str], settings: Configuration | None, gates: Gates, output: str
) -> tuple[Scenario, list[str]]:
    """The scene and the warnings of `kuota check`; ends the command if manifests are invalid."""
    manifests = load(paths)
    verdict = inspected(manifests, gates)
    if verdict.faults or verdict.unreadable:
        untimely = [
            finding(each, fault) for each in manifests for fault in time_faults(each.object)
        ]
        _reject(_with(verdict, untimely), output)
    scenario = load_scenario([each.object for each in manifests], settings, gates)
    if scenario.invalid:
        invalid = [finding(manifests[each.index], each.fault) for each in scenario.invalid]
        _reject(_with(verdict, invalid), output)
    return scenario, [*scenario.notes, *map(str, verdict.findings)]


def _reject(verdict: CheckResult, output: str) -> NoReturn:
    """Print the faults as `kuota check` does, and exit the process."""
    show(verdict, output if output in ("json", "yaml") else "text")
    sys.exit(UNREADABLE if verdict.unreadable else FAULTY)


def _with(verdict: CheckResult, more: list[Finding]) -> CheckResult:
    return msgspec.structs.replace(verdict, findings=[*verdict.findings, *more])


def _plan(
    scenario: Scenario, notes: list[str], settings: Configuration | None, gates: Gates
) -> tuple[State, Plan]:
    rules = policy(settings, gates)
    if rules.block_until_ready:
        notes.append("Pods are taken to be ready as soon as they are admitted.")
        rules = msgspec.structs.replace(rules, block_until_ready=False)
    end = played(scenario, rules)
    subjects = [
        Subject(key=each.workload.key, name=each.name, kind=each.kind, workload=each.workload)
        for each in scenario.submissions
    ]
    subjects += [
        Subject(key=each.key, name=each.key.name, kind="Job", queue=each.queue, unqueued=each.why)
        for each in scenario.unqueued
    ]
    past = PastEvents(events=end.events, borrowed=end.borrowed, restless=end.restless)
    found = Builder(end.engine, end.now, subjects, past, scenario.priorities)
    return end.engine.state, found.plan(notes)


def _row(plan: Plan, wanted: str) -> PlannedWorkload:
    """Return the workload with this name, or whose job has this name."""
    for row in plan.workloads:
        namespace = row.name.partition("/")[0]
        if wanted in (row.name, f"{namespace}/{row.workload}"):
            return row
    names = [row.name for row in plan.workloads]
    close = difflib.get_close_matches(wanted, names, n=1)
    bare = [name for name in names if name.partition("/")[2] == wanted]
    known = f"there are: {', '.join(names)}" if names else "the plan contains none"
    hint = f"did you mean {(bare or close)[0]}?" if bare or close else known
    raise click.BadParameter(f"no workload {wanted}; {hint}", param_hint="--explain")


def _show(shown: Plan | PlannedWorkload, output: str) -> None:
    if output in printed.FORMATS:
        printed.show(shown, output)
        return
    # Imported here because JSON and YAML do not need its library.
    from . import tables

    if isinstance(shown, Plan):
        tables.print_plan(shown, wide=output == "wide")
    else:
        tables.print_explanation(shown)
