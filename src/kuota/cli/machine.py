# SPDX-License-Identifier: Apache-2.0
"""`kuota down`, `status`, `backup` and `restore`: manage the control plane of this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .connect import ANSWER_S, Failed, require_owner, state_dir_option

if TYPE_CHECKING:
    from kuota.up.state_dir import RunningInstance, StateDir
    from kuota.view.room import Shortage

STOP_S = 30.0
"""Timeout for the control plane to stop."""


@click.command("down")
@state_dir_option
@click.option("--kill", is_flag=True, help="Also stop running pods.")
def down(state_dir: StateDir, kill: bool) -> None:
    """Stop the control plane of this machine.

    Running pods continue, and the next `kuota up` adopts them. With --kill they are stopped, too:
    SIGTERM, and SIGKILL ten seconds later.

    \b
    Examples:
      kuota down
      kuota down --kill
    """

    running = state_dir.running()
    if running is None:
        click.echo(f"no control plane is running from {state_dir.root}")
    else:
        _stop(state_dir, running)
    if kill:
        require_owner(state_dir)
        if running is not None:
            click.echo("Kuota has stopped.")
        import asyncio

        from kuota.runner.pod_runs import end_all

        count = asyncio.run(end_all(str(state_dir.root)))
        click.echo(f"Stopped {count} process{'' if count == 1 else 'es'} of running pods.")
    elif running is not None:
        click.echo("Kuota has stopped. Running pods continue.")


def _stop(state_dir: StateDir, running: RunningInstance) -> None:
    """Stop the process, and wait until it has exited and released the store."""
    import signal
    import time

    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"you may not stop pid {running.pid}; ask its owner") from None
    deadline = time.monotonic() + STOP_S
    while running.alive:
        if time.monotonic() > deadline:
            raise click.ClickException(f"pid {running.pid} does not stop; see {state_dir.log}")
        time.sleep(0.05)


@click.command("status")
@state_dir_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "env"]),
    default="text",
    help="env prints only the shell command that sets KUBECONFIG.",
)
def status(state_dir: StateDir, output: str) -> None:
    """Show whether the control plane of this machine is running, and its address.

    The exit status is 3 if it is not running. Then the text also names the server that
    $KUBECONFIG or ~/.kube/config selects, if there is one.

    \b
    Examples:
      kuota status
      eval "$(kuota status -o env)"    # configures kubectl
    """
    from kuota.up.state_dir import default_state_dir, shared_state_dir

    from .output import show

    if state_dir.running() is None and state_dir.root == default_state_dir().root:
        state_dir = shared_state_dir() or state_dir
    running = state_dir.running()
    if output == "env" and running is not None:
        _show_environment(state_dir)
        return
    shortages = _shortages(state_dir) if running is not None else None
    facts = _facts(state_dir, running, shortages)
    if output in ("json", "yaml"):
        show(facts, output)
    elif running is None:
        click.echo(
            f"No control plane is running from {state_dir.root}. Start one with `kuota up`.",
            err=output == "env",
        )
        if output == "text":
            click.echo(_selected_server(), nl=False)
    else:
        _show_status(state_dir, running, shortages or ())
    if running is None:
        raise SystemExit(3)


def _show_environment(state_dir: StateDir) -> None:
    """Print the command that sets KUBECONFIG. Raises Failed if only another user may read it."""
    if not os.access(state_dir.kubeconfig, os.R_OK):
        raise Failed(
            f"{state_dir.kubeconfig} belongs to another user. `kuota` commands identify you by "
            "uid; kubectl needs a kubeconfig of your own: ask an admin for `kuota token create`"
        )
    click.echo(f"export KUBECONFIG={shlex.quote(str(state_dir.kubeconfig))}")


def _selected_server() -> str:
    """Return a line about the server that a kubeconfig selects; "" if none does."""
    import asyncio

    from kuota.kube.config import connection
    from kuota.kube.errors import ConfigError, KubeError

    from .session import opened

    async def responds() -> None:
        async with asyncio.timeout(ANSWER_S), opened(selected):
            pass

    try:
        selected = connection()
    except ConfigError:
        return ""
    try:
        asyncio.run(responds())
        words = "responds"
    except (KubeError, TimeoutError) as error:
        words = f"does not answer: {str(error) or 'timeout'}"
    chosen = "$KUBECONFIG" if os.environ.get("KUBECONFIG") else "~/.kube/config"
    return f"Commands use the server that {chosen} selects, {selected.server}, which {words}.\n"


def _facts(
    state_dir: StateDir, running: RunningInstance | None, shortages: Sequence[Shortage] | None
) -> dict[str, Any]:
    from kuota.up.separation import separation

    return {
        "running": running is not None,
        "state": str(state_dir.root),
        "kubeconfig": str(state_dir.kubeconfig),
        "pid": running.pid if running else None,
        "server": f"https://127.0.0.1:{running.port}" if running else None,
        "dashboard": f"https://127.0.0.1:{running.port}/dashboard/" if running else None,
        "runAs": running.run_as if running else None,
        "limits": running.limits if running else None,
        "isolation": separation(running.run_as, running.isolation) if running else None,
        "shortages": shortages,
    }


def _show_status(
    state_dir: StateDir, running: RunningInstance, shortages: Sequence[Shortage]
) -> None:
    from kuota.up.default_user import account
    from kuota.up.separation import separation, warnings
    from kuota.view.room import shortage_words

    server = f"https://127.0.0.1:{running.port}"
    click.echo(f"Kuota {running.version} is running (pid {running.pid}) on {server}")
    if os.access(state_dir.kubeconfig, os.R_OK):
        click.echo(f"  export KUBECONFIG={state_dir.kubeconfig}")
    else:
        click.echo("  It belongs to another user. It identifies you by uid; kubectl needs a token.")
    click.echo(f"  dashboard: {server}/dashboard/ (`kuota dashboard` signs you in)")
    if running.run_as is not None:
        user = account(running.run_as)
        click.echo(f"  Pods that name no user run as {user.name} (uid {user.uid}).")
    for sentence in warnings(separation(running.run_as, running.isolation)):
        click.echo(f"  {sentence}")
    if running.limits:
        click.echo(f"  {running.limits}")
    for each in shortages:
        click.echo(f"  {shortage_words(each)}")


def _shortages(state_dir: StateDir) -> list[Shortage] | None:
    """Return the shortages that the control plane reports; None if it does not respond."""
    import asyncio

    from kuota.kube.errors import KubeError

    from . import room
    from .connect import connection_to
    from .session import opened

    async def asked() -> list[Shortage]:
        async with asyncio.timeout(ANSWER_S), opened(connection_to(state_dir)) as session:
            return await room.found(session)

    try:
        return asyncio.run(asked())
    except (KubeError, TimeoutError):
        return None


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@state_dir_option
def backup(file: Path, state_dir: StateDir) -> None:
    """Back up all objects of this machine's control plane to FILE, for `kuota restore`.

    The control plane may be running. FILE is a consistent snapshot that includes Secrets, so only
    you can read it; an existing backup is replaced. Tokens, logs and files of pods are not
    included. The exit status is 1 if nothing was written.

    \b
    Example:
      kuota backup lab.backup
    """
    from kuota.server.store_copies import back_up
    from kuota.server.store_schema import StoreError

    require_owner(state_dir)
    try:
        back_up(str(state_dir.store), str(file))
    except StoreError as error:
        raise click.ClickException(f"no backup was made: {error}") from error
    except OSError as error:
        raise click.ClickException(f"no backup was made: {file}: {error.strerror}") from error
    click.echo(f"{file}: {file.stat().st_size / 1024:,.0f} KiB")


@click.command("restore")
@click.argument("file", required=False)
@state_dir_option
def restore(file: str | None, state_dir: StateDir) -> None:
    """List the automatic backups of this machine's control plane, or restore FILE.

    FILE is a file that `kuota backup` wrote, the name of an automatic backup, or `latest`. Stop the
    control plane first. The previous objects are kept in a file next to the store. The next `kuota
    up` continues from the backup, and stops processes whose pods it does not contain. The exit
    status is 1 if nothing was changed.

    \b
    Examples:
      kuota restore              # list the automatic backups
      kuota restore latest
    """
    from datetime import UTC, datetime

    from kuota.server import store_copies
    from kuota.server.store_schema import StoreError

    require_owner(state_dir)
    if file is None:
        _list_backups(state_dir)
        return
    source = _backup_file(state_dir, file)
    running = state_dir.running()
    if running is not None:
        raise click.ClickException(
            f"running from {state_dir.root} (pid {running.pid}); stop it with `kuota down` first"
        )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    try:
        state_dir.prepare()
        old = store_copies.restore(str(source), str(state_dir.store), stamp)
    except (StoreError, OSError) as error:
        raise click.ClickException(f"nothing was restored: {error}") from error
    click.echo(f"Restored {source} to {state_dir.store}; `kuota up` starts from it.")
    if old is not None:
        click.echo(f"  previous objects: {old}")


def _backup_file(state_dir: StateDir, name: str) -> Path:
    """Return the file, or the automatic backup with this name."""
    from kuota.up.backups import Backups

    if Path(name).is_file():
        return Path(name)
    found = Backups(state_dir.backups).named(name)
    if found is None:
        raise click.UsageError(
            f"{name} does not exist, neither as a file nor in {state_dir.backups}; "
            "`kuota restore` lists the automatic backups"
        )
    return found.path


def _list_backups(state_dir: StateDir) -> None:
    from kuota.up.backups import Backups

    from .output import show_table

    found = Backups(state_dir.backups).found()
    if not found:
        click.echo(f"There are no backups in {state_dir.backups}. `kuota up` makes one every hour.")
        return
    rows = [
        (
            each.path.stem,
            f"{each.at:%Y-%m-%d %H:%M:%S} UTC",
            "unreadable" if each.objects is None else str(each.objects),
            f"{each.path.stat().st_size / 1024:,.0f} KiB",
        )
        for each in found
    ]
    show_table(("name", "created", "objects", "size"), rows)
    click.echo("\nRestore one with `kuota restore NAME` while the control plane is stopped.")
