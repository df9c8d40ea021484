# SPDX-License-Identifier: Apache-2.0
"""`kuota demo`: three teams share eight pretend GPUs, live, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kuota.up.demo import Seen
    from kuota.up.place import Place

_EXAMPLE = "examples/live"
_CLEAR_S = 30.0
"""How long processes may take to end when the story was broken off."""


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave it running afterwards.")
@click.option("--state", type=click.Path(path_type=Path), help="A new folder to keep it all in.")
@click.option(
    "--manifests",
    type=click.Path(path_type=Path, file_okay=False),
    default=_EXAMPLE,
    show_default=True,
    help="Where the manifests of the story are.",
)
def command(keep: bool, state: Path | None, manifests: Path) -> None:
    """See three teams share eight pretend GPUs, with real processes.

    Starts a control plane of its own, submits Jobs, and tells as it happens how idle quota is
    borrowed, how a gang waits until it can start whole, how the owner takes its quota back, and
    how the preempted work goes on from where it was saved. Takes less than a minute, and leaves
    nothing behind unless told to.
    """
    import shutil

    from kuota.up.place import Place

    if not manifests.is_dir():
        raise click.ClickException(
            f"there is no {manifests}: run this in a checkout of Kuota, or name it by --manifests"
        )
    place = Place(_fresh(state))
    try:
        _perform(place, manifests, keep)
    except KeyboardInterrupt:
        if state is None:
            shutil.rmtree(place.root)
        raise
    # A story that failed leaves its log for whoever wants to know why.
    if not keep and state is None:
        shutil.rmtree(place.root)


def _fresh(state: Path | None) -> Path:
    """A folder for one story, which other users can get through but not look around in."""
    import tempfile

    if state is None:
        root = Path(tempfile.mkdtemp(prefix="kuota-"))
    else:
        root = state.absolute()
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise click.ClickException(f"{root} is not empty; the story needs a new folder")
    root.chmod(0o711)
    return root


def _perform(place: Place, manifests: Path, keep: bool) -> None:
    import asyncio
    import signal
    import time

    from kuota.kube.errors import KubeError
    from kuota.up.demo import GPUS

    from .telling import Stuck

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    click.echo(f"Starting a control plane with {GPUS} pretend GPUs in {place.root}")
    try:
        _kuota("up", "--state", str(place.root), "--gpus", str(GPUS), *_user(), "--detach")
        click.echo(f"{time.monotonic() - start:6.1f}s  it answers kubectl and others")
        seen = asyncio.run(_told(place, manifests, start))
    except (Stuck, KubeError) as error:
        what = f"waited in vain for {error}" if isinstance(error, Stuck) else str(error)
        _stop(place)
        raise click.ClickException(f"{what}; the log is {place.log}") from None
    except BaseException:
        _stop(place)
        raise
    if not keep:
        _stop(place)
    _conclude(seen)
    _tell_ways_on(place, manifests, keep)


async def _told(place: Place, manifests: Path, start: float) -> list[Seen]:
    """Tell the story; one that breaks off leaves no work behind."""
    import asyncio
    from contextlib import suppress

    from kuota.kube.config import from_kubeconfig
    from kuota.kube.errors import KubeError

    from .session import opened
    from .telling import Telling, clear

    saves = place.root / "saved"
    saves.mkdir()
    saves.chmod(0o1777)
    async with opened(from_kubeconfig([place.kubeconfig])) as session:
        try:
            return await Telling(session, manifests, saves, start).run()
        except BaseException:
            with suppress(KubeError, TimeoutError):
                await asyncio.wait_for(clear(session), _CLEAR_S)
            raise


def _user() -> Sequence[str]:
    """As root the processes run as somebody who may do nothing."""
    import os

    return ("--run-as", "nobody") if os.geteuid() == 0 else ()


def _kuota(*arguments: str) -> None:
    """Run another command, which only speaks up when it fails."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "kuota.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(done.stdout.strip().removeprefix("Error: "))


def _stop(place: Place) -> None:
    if place.running() is not None:
        _kuota("down", "--state", str(place.root))


def _conclude(seen: Sequence[Seen]) -> None:
    from kuota.up.demo import summary

    from .columns import show

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
        for each in summary(seen)
    ]
    show(("job", "team", "gpus", "waited", "ran", "preempted"), rows)
    click.echo()


def _tell_ways_on(place: Place, manifests: Path, keep: bool) -> None:
    import sys

    if not keep:
        click.echo("Everything has finished, and the control plane has stopped.")
        click.echo(f"The manifests are in {manifests}. To look around, and to submit work of your")
        click.echo("own with kubectl, keep it running: make up KEEP=1")
        return
    click.echo("Everything has finished. The control plane goes on:")
    click.echo(f"  export KUBECONFIG={place.kubeconfig}")
    click.echo("  kubectl get clusterqueues,workloads,jobs,pods -A")
    click.echo("  kubectl describe workloads -n vision")
    click.echo(f"  kubectl replace --force -f {manifests / '3-gang.yaml'}   # once more")
    click.echo(f"The manifests are in {manifests}. To end it:")
    click.echo(f"  {sys.argv[0]} down --state {place.root}")
