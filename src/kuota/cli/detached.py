# SPDX-License-Identifier: Apache-2.0
"""Starts a detached control plane, and reports why it did not start."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    import subprocess

    from kuota.up.state_dir import StateDir

START_S = 120.0
"""Timeout of a detached start. A large store, or a busy machine, takes long."""
_PATIENCE_S = 2.0
"""After this time, progress is shown."""
_LAST_LINES = 20


def unusable_state(state_dir: StateDir, why: str) -> str:
    """Return the message for a state directory that cannot be used."""
    return (
        f"cannot use the state directory {state_dir.root}: {why}. Choose another one with --state"
    )


def start_detached(state_dir: StateDir) -> None:
    """Start the same command in a new session, and wait until the control plane is ready."""
    import subprocess

    arguments = [each for each in sys.argv[1:] if each != "--detach"]
    with _log(state_dir) as log:
        before = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "kuota.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    try:
        await_ready(state_dir, process, before)
    except KeyboardInterrupt:
        process.terminate()  # Nobody would know that it runs.
        raise
    click.echo(f"Kuota is running (pid {process.pid}); `kuota down` stops it")
    click.echo(f"  export KUBECONFIG={state_dir.kubeconfig}")
    click.echo("  `kuota dashboard` opens the dashboard")


def await_ready(state_dir: StateDir, process: subprocess.Popen[bytes], before: int) -> None:
    """Wait until the control plane is ready. Raises ClickException if it fails or takes too long.

    `before` is the size of its log before it was started.
    """
    import time

    from .progress import Progress

    began, progress = time.monotonic(), Progress()
    while state_dir.running() is None:
        if process.poll() is not None:
            progress.clear()
            raise click.ClickException(failed_start(state_dir, before))
        if time.monotonic() > began + START_S:
            progress.clear()
            raise click.ClickException(
                f"not ready after {START_S:.0f} s, but still starting (pid {process.pid}). Wait "
                f"until `kuota status` reports it, or stop it; see {state_dir.log}"
            )
        if time.monotonic() > began + _PATIENCE_S:
            progress.show("starting the control plane")
        time.sleep(0.05)
    progress.clear()


def _log(state_dir: StateDir) -> BinaryIO:
    from kuota.log_file import private_log

    try:
        state_dir.prepare()
        return open(private_log(state_dir.log), "ab")
    except OSError as error:
        raise click.ClickException(
            unusable_state(state_dir, error.strerror or str(error))
        ) from None


def failed_start(state_dir: StateDir, before: int) -> str:
    """Return the error that ended a failed start, or else the last lines of its log."""
    with open(state_dir.log, "rb") as log:
        log.seek(before)
        words = log.read().decode(errors="replace").strip()
    _, error, reason = f"\n{words}".rpartition("\nError: ")
    lines = (reason if error else words).splitlines()[-_LAST_LINES:]
    return "\n".join(lines) if lines else f"the start failed; see {state_dir.log}"
