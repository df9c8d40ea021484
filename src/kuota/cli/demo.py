# SPDX-License-Identifier: Apache-2.0
"""`kuota demo`: shows three teams that share eight simulated GPUs, with real processes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kuota.failures import alongside
from kuota.kube.errors import KubeError, NotFound
from kuota.kube.requests import PatchType
from kuota.kube.resources import JOBS, PODS, key_of
from kuota.up.demo import (
    GPUS,
    QUEUES,
    STEPS,
    TRAIN,
    DemoStep,
    EventType,
    Expectation,
    TimedEvent,
    placed,
    summary,
)
from kuota.up.event_log import EventLog

from .kinds import resource_for
from .manifests import load
from .terminal import echo_raw, escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kuota.up.state_dir import StateDir

    from .session import Session

_EXAMPLE = "examples/live"
_CLEAR_S = 30.0
"""Timeout for the processes to end when the demo is interrupted."""
LIMIT_S = 60.0
"""Timeout of the demo, without the start of the control plane."""
_COLOURS = {
    EventType.BORROWS: "cyan",
    EventType.WAITS: "yellow",
    EventType.ADMITTED: "green",
    EventType.PREEMPTED: "magenta",
    EventType.FINISHED: "green",
    EventType.SAYS: "bright_black",
}


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the control plane running afterwards.")
@click.option("--state", type=click.Path(path_type=Path), help="A new or empty state directory.")
@click.option(
    "--manifests",
    type=click.Path(path_type=Path, file_okay=False),
    default=_EXAMPLE,
    show_default=True,
    help="The manifests of the demo.",
)
def command(keep: bool, state: Path | None, manifests: Path) -> None:
    """Show how three teams share eight simulated GPUs, with real processes.

    Starts its own control plane, submits Jobs, and reports live how idle quota is borrowed, how a
    gang waits until all of its pods fit, how the owner reclaims its quota, and how the preempted
    work resumes from its checkpoint. Takes less than a minute and, without --keep, leaves nothing
    behind.

    \b
    Examples:
      kuota demo
      kuota demo --keep    # then try kubectl; `kuota down` stops it
    """
    from kuota.up.state_dir import StateDir

    if not manifests.is_dir():
        raise click.ClickException(
            f"{manifests} does not exist; run this in a checkout of Kuota, or use --manifests"
        )
    state_dir = StateDir(_fresh(state))
    try:
        _run(state_dir, manifests, keep)
    except KeyboardInterrupt:
        if state is None:
            shutil.rmtree(state_dir.root)
        raise
    # A failed demo keeps its directory, because the log explains the failure.
    if not keep and state is None:
        shutil.rmtree(state_dir.root)


def _fresh(state: Path | None) -> Path:
    """Return a new or empty directory, which other users can traverse but not list."""
    if state is None:
        root = Path(tempfile.mkdtemp(prefix="kuota-"))
    else:
        root = state.absolute()
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise click.ClickException(f"{root} is not empty; choose a new directory")
    root.chmod(0o711)
    return root


def _run(state_dir: StateDir, manifests: Path, keep: bool) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    click.echo(f"Starting a control plane with {GPUS} simulated GPUs in {state_dir.root}")
    try:
        _kuota("up", "--state", str(state_dir.root), "--gpus", str(GPUS), "--detach")
        click.echo(f"{time.monotonic() - start:6.1f}s  the control plane is ready")
        events = asyncio.run(_run_demo(state_dir, manifests, start))
    except (DemoTimeout, KubeError) as error:
        what = f"timed out waiting for {error}" if isinstance(error, DemoTimeout) else str(error)
        _stop(state_dir)
        raise click.ClickException(f"{what}; the log is {state_dir.log}") from None
    except BaseException:
        _stop(state_dir)
        raise
    if not keep:
        _stop(state_dir)
    _conclude(events)
    _show_next_steps(state_dir, manifests, keep)


async def _run_demo(state_dir: StateDir, manifests: Path, start: float) -> list[TimedEvent]:
    """Run the demo and return its events. Deletes all Jobs if the demo fails."""
    from kuota.kube.config import from_kubeconfig

    from .session import opened

    with _saves() as saves:
        async with opened(from_kubeconfig([state_dir.kubeconfig])) as session:
            try:
                return await DemoRun(session, manifests, saves, start).run()
            except BaseException:
                with suppress(KubeError, TimeoutError):
                    await asyncio.wait_for(clear(session), _CLEAR_S)
                raise


@contextmanager
def _saves() -> Iterator[Path]:
    """A directory for the work that jobs save. No pod may use the state directory for it."""
    with tempfile.TemporaryDirectory(prefix="kuota-saved-", ignore_cleanup_errors=True) as name:
        saves = Path(name)
        saves.chmod(0o1777)
        yield saves


def _kuota(*arguments: str) -> None:
    """Run another kuota command. Raises ClickException with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "kuota.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(done.stdout.strip().removeprefix("Error: "))


def _stop(state_dir: StateDir) -> None:
    if state_dir.running() is not None:
        _kuota("down", "--state", str(state_dir.root))


def _conclude(events: Sequence[TimedEvent]) -> None:
    from .output import show_table

    click.echo()
    rows = [
        (
            each.job.partition("/")[2],
            each.job.partition("/")[0],
            str(each.gpus),
            f"{each.waited_s:.1f}s",
            f"{each.ran_s:.1f}s",
            str(each.preempted) if each.preempted else "-",
        )
        for each in summary(events)
    ]
    show_table(("job", "team", "gpus", "waited", "ran", "preempted"), rows)
    click.echo()


def _show_next_steps(state_dir: StateDir, manifests: Path, keep: bool) -> None:
    if not keep:
        click.echo("Everything has finished, and the control plane has stopped.")
        click.echo(f"The manifests are in {manifests}. To explore it and submit your own work with")
        click.echo("kubectl, keep it running: make up KEEP=1")
        return
    click.echo("Everything has finished. The control plane keeps running:")
    click.echo(f"  export KUBECONFIG={state_dir.kubeconfig}")
    click.echo("  kubectl get clusterqueues,workloads,jobs,pods -A")
    click.echo("  kubectl describe workloads -n vision")
    click.echo(f"  kubectl replace --force -f {manifests / '3-gang.yaml'}   # run again")
    click.echo(f"The manifests are in {manifests}. To stop it:")
    click.echo(f"  {sys.argv[0]} down --state {state_dir.root}")


class DemoTimeout(Exception):
    """An expected event did not occur in time; the message names it."""


class DemoRun:
    """One run of the demo. Manifests come from `folder`, and jobs save their work in `saves`."""

    def __init__(self, session: Session, folder: Path, saves: Path, start: float) -> None:
        self._session = session
        self._folder = folder
        self._saves = saves
        self._log = EventLog(session.client, _report, (TRAIN,), start)
        self._expected: Expectation | None = None

    async def run(self) -> list[TimedEvent]:
        """Run all steps and return the events. Raises DemoTimeout if an event does not occur."""
        try:
            async with alongside(self._log.run()), asyncio.timeout(LIMIT_S):
                await self._apply(QUEUES)
                for step in STEPS:
                    await self._run_step(step)
        except TimeoutError:
            raise DemoTimeout(str(self._expected or "the server to take the manifests")) from None
        return self._log.events

    async def _run_step(self, step: DemoStep) -> None:
        echo_raw("\n" + _styled(step.title, bold=True))
        if step.manifest:
            click.echo(f"         $ kubectl apply -f {self._folder / step.manifest}")
            await self._apply(step.manifest)
        for self._expected in step.expectations:
            await self._log.until(self._expected)

    async def _apply(self, name: str) -> None:
        for each in load([str(self._folder / name)]):
            if not each.object or each.faults:
                raise DemoTimeout(f"{each.source} to be a readable manifest")
            obj = placed(each.object, str(self._saves))
            resource = await resource_for(self._session, obj["apiVersion"], obj["kind"])
            assert resource is not None
            await self._session.client.patch(
                resource, key_of(obj), obj, kind=PatchType.APPLY, validation="Strict"
            )


async def clear(session: Session) -> None:
    """Delete all Jobs, and wait until all of their pods are gone."""
    client = session.client
    for job in (await client.list(JOBS)).items:
        with suppress(NotFound):
            await client.delete(JOBS, key_of(job), propagation="Background")
    pods = await client.list(PODS)
    left = {key_of(each) for each in pods.items}
    async with aclosing(client.watch(PODS, since=pods.revision)) as events:
        while left:
            event = await anext(events)
            if event.type == "DELETED":
                left.discard(key_of(event.object))


def _report(timed: TimedEvent) -> None:
    event = timed.event
    text = f"│ {event.text}" if event.what is EventType.SAYS else event.text
    words = _styled(text, fg=_COLOURS.get(event.what))
    echo_raw(f"{timed.at_s:6.1f}s  {escaped(event.who):18} {words}")


def _styled(text: str, *, fg: str | None = None, bold: bool = False) -> str:
    text = escaped(text)
    return click.style(text, fg=fg, bold=bold or None) if sys.stdout.isatty() else text
