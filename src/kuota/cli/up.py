# SPDX-License-Identifier: Apache-2.0
"""`kuota up`: starts the control plane of this machine, which runs pods as processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from .amounts import Integer
from .connect import state_dir_option
from .detached import start_detached, unusable_state
from .idle_options import idle_options
from .plugins import load_plugins

if TYPE_CHECKING:
    from kuota.api.config.shapes import Configuration
    from kuota.api.gates import Gates
    from kuota.runner.nodes import NodePlan
    from kuota.up.options import ExternalListener, UpOptions
    from kuota.up.state_dir import StateDir

DOOR = 6443
"""The default port of --address, as for other API servers."""
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("up")
@state_dir_option
@click.option(
    "--port",
    type=Integer(0, 65535),
    default=0,
    help="The port on 127.0.0.1. With 0: the previous port, or any free one.",
)
@click.option(
    "--address",
    default="",
    metavar="HOST[:PORT]",
    help="Also serve other machines at this address.",
)
@click.option("--tls-cert", type=_PATH, metavar="FILE", help="The TLS certificate for --address.")
@click.option("--tls-key", type=_PATH, metavar="FILE", help="The private key of the certificate.")
@click.option("--gpus", type=Integer(0), default=0, help="Offer this many simulated GPUs.")
@click.option(
    "--nodes", type=click.File(), help="Node manifests: simulate these Nodes; their pods run here."
)
@click.option(
    "--topology",
    type=click.Choice(["auto", "socket", "numa", "pcie-switch", "nvlink-group"]),
    help="Divide this machine into a Node for each domain of this level, and bind pods to it.",
)
@click.option(
    "--simulate-topology",
    default="",
    metavar="LEVEL=NUMBER,…",
    help="Divide this machine into simulated domains, such as socket=2,nvlink-group=2.",
)
@click.option("--config", type=click.File(), help="A configuration file of Kueue.")
@click.option(
    "--feature-gates", default="", metavar="NAME=BOOL,…", help="Feature gates, as for Kueue."
)
@click.option("--run-as", metavar="USER", help="As root: the user of pods that name none.")
@click.option("--allow-root", is_flag=True, help="As root: allow admins to run pods as root.")
@click.option(
    "--pod-pids-limit",
    type=Integer(1),
    default=16384,
    show_default=True,
    help="The most processes and threads of one pod.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start even if stored objects are missing, and continue without them.",
)
@click.option(
    "--max-objects-per-namespace",
    type=Integer(1),
    default=100_000,
    show_default=True,
    help="Limit the objects that users store in one namespace.",
)
@click.option(
    "--max-grace-period",
    type=Integer(0, 86_400),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="End processes after this time at the latest, whatever grace period their pod has.",
)
@click.option(
    "--allow-unqueued",
    is_flag=True,
    help="Let members run Pods, and Jobs without a queue, outside of any quota.",
)
@click.option(
    "--dashboard-actions",
    is_flag=True,
    help="Let users hold workloads and stop queues in the dashboard, as far as permitted.",
)
@idle_options
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=Integer(0),
    default=0,
    help="Log verbosity. 2 logs all decisions, 4 logs everything.",
)
@click.option("--detach", is_flag=True, help="Run in the background. `kuota down` stops it.")
def command(
    state_dir: StateDir,
    run_as: str | None,
    allow_root: bool,
    verbosity: int,
    detach: bool,
    **chosen: Any,
) -> None:
    """Start the control plane of this machine.

    Serves the Kubernetes API on 127.0.0.1, queues Jobs as Kueue does, and runs their pods as
    processes of this machine. Running pods survive a stop of the control plane; the next start
    adopts them. Serving another address requires a certificate, because clients send tokens there.
    `kuota token` manages tokens.

    \b
    Examples:
      kuota up                             # in the foreground, with the GPUs of this machine
      kuota up --gpus 8 --detach           # in the background, with simulated GPUs
      sudo kuota up --detach               # for all users of this machine: pods run as their users
      kuota up --config kueue-config.yaml --feature-gates TopologyAwareScheduling=true
    """
    running = state_dir.running()
    if running is not None:
        raise click.ClickException(
            f"already running from {state_dir.root} (pid {running.pid}); `kuota down` stops it"
        )
    _check_topology(chosen["nodes"], chosen["topology"], chosen["simulate_topology"])
    fallback = _fallback_uid(run_as, allow_root)
    _check_door(chosen["address"], chosen["tls_cert"], chosen["tls_key"])
    if detach:
        start_detached(state_dir)
        return
    _begin_logs(verbosity)
    _serve(state_dir, _options(run_as=fallback, allow_root=allow_root, **chosen))


def _begin_logs(verbosity: int) -> None:
    """Log warnings, or more. No cause can flood the log."""
    from kuota.controller import logs
    from kuota.log_file import limit_lines

    level = "" if verbosity else "warn"
    logs.begin(logs.style(level, encoder="console", verbosity=verbosity))
    limit_lines()


def _options(
    *,
    address: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    gpus: int,
    nodes: TextIO | None,
    topology: str | None,
    simulate_topology: str,
    config: TextIO | None,
    feature_gates: str,
    max_grace_period: int,
    idle_below: float,
    idle_after: int,
    **same: Any,
) -> UpOptions:
    """Return the options. Those in `same` have the same name as their flag."""
    from kuota.up.machine_nodes import TopologyOptions
    from kuota.up.options import UpOptions
    from kuota.view.idle import IdlePolicy

    settings, gates = _settings(config, feature_gates)
    return UpOptions(
        external_listener=_door(address, tls_cert, tls_key),
        pretend_gpus=gpus,
        nodes=_plans(nodes) if nodes is not None else (),
        topology=TopologyOptions(topology or "", _simulated(simulate_topology)),
        config=settings,
        gates=gates,
        max_grace_s=max_grace_period,
        idle=IdlePolicy(idle_below, idle_after),
        **same,
    )


def _settings(config: TextIO | None, feature_gates: str) -> tuple[Configuration | None, Gates]:
    from kuota.api.config.load import checked
    from kuota.api.faults import Invalid
    from kuota.api.gates import resolved

    load_plugins()
    try:
        if config is not None:
            settings, gates = checked(_text(config), feature_gates)
            return settings, gates
        return None, resolved(feature_gates, None)
    except Invalid as error:
        where = f"--config {config.name}: " if config is not None else ""
        words = "\n".join(f"{where}{each}" for each in error.errors)
        raise click.ClickException(words) from error


def _plans(nodes: TextIO) -> tuple[NodePlan, ...]:
    """Return the Nodes in the file. Raises ClickException with all faults of `kuota check`."""
    from kuota.api.faults import Invalid
    from kuota.api.gates import Gates
    from kuota.runner.nodes import NodesError, described

    from .findings import Severity, inspected
    from .manifests import written

    text = _text(nodes)
    verdict = inspected(list(written(text, nodes.name)), Gates())
    findings = [each for each in verdict.findings if each.severity is Severity.ERROR]
    if findings:
        raise click.ClickException("\n".join(["--nodes has faults:", *map(str, findings)]))
    try:
        return tuple(described(text))
    except (Invalid, NodesError) as error:
        raise click.ClickException(f"--nodes {nodes.name}: {error}") from error


def _text(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError:
        raise click.ClickException(f"{file.name} is not UTF-8 text") from None


def _check_door(address: str, certificate: Path | None, key: Path | None) -> None:
    """Raise UsageError unless the address comes with a certificate and key: tokens need TLS."""
    given = [bool(each) for each in (address, certificate, key)]
    if any(given) and not all(given):
        raise click.UsageError(
            "--address, --tls-cert and --tls-key must be given together: without TLS, tokens "
            "could be intercepted"
        )


def _check_topology(nodes: TextIO | None, topology: str | None, simulated: str) -> None:
    """Raise UsageError if the levels are invalid, or several options describe the Nodes."""
    given = {"--nodes": nodes, "--topology": topology, "--simulate-topology": simulated}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} exclude each other: use one of them")
    _simulated(simulated)


def _simulated(text: str) -> dict[str, int]:
    """Return the simulated levels. Raises UsageError with all faults."""
    from kuota.runner.machine_layout import LayoutError, simulated_levels

    try:
        return simulated_levels(text) if text else {}
    except LayoutError as error:
        raise click.UsageError(f"--simulate-topology {text}: {error}") from None


def _door(address: str, certificate: Path | None, key: Path | None) -> ExternalListener | None:
    """Return the listener for other machines, or None. Raises ClickException if it is invalid."""
    from urllib.parse import urlsplit

    from kuota.server.http import TlsError, loaded_context
    from kuota.up.options import ExternalListener

    if not address or not certificate or not key:
        return None
    try:
        context = loaded_context(certificate, key)
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port or DOOR
    except (TlsError, ValueError) as error:
        raise click.ClickException(f"--address {address}: {error}") from None
    if not host:
        raise click.UsageError(f"--address {address}: use HOST or HOST:PORT")
    return ExternalListener(host, port, context)


def _fallback_uid(run_as: str | None, allow_root: bool) -> int | None:
    """Return the uid for pods that name no user, and print it; None unless this process is root."""
    if os.geteuid() != 0:
        return None
    from kuota.up.default_user import account, default_user

    chosen = account(_uid(run_as)) if run_as else default_user(os.environ)
    if chosen.uid == 0 and not allow_root:
        raise click.UsageError("--run-as root also needs --allow-root")
    hint = "" if run_as else " Choose another user with --run-as USER."
    click.echo(
        f"Running as root. Pods that name no user run as {chosen.name} (uid {chosen.uid}).{hint}",
        err=True,
    )
    return chosen.uid


def _uid(user: str) -> int:
    import pwd

    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise click.ClickException(f"there is no user {user} on this machine") from None


def _serve(state_dir: StateDir, options: UpOptions) -> None:
    import asyncio
    import signal
    import traceback

    from kuota import loop
    from kuota.listening import CannotListen
    from kuota.runner.nodes import NodesError
    from kuota.server.http import TlsError
    from kuota.server.store_schema import StoreError
    from kuota.server.tokens import TokenError
    from kuota.up.installation import Installation

    def ready(port: int) -> None:
        click.echo(f"Kuota serves https://127.0.0.1:{port}")
        click.echo(f"  export KUBECONFIG={state_dir.kubeconfig}")
        click.echo(
            f"  dashboard: https://127.0.0.1:{port}/dashboard/ (`kuota dashboard` signs you in)"
        )

    async def serve() -> None:
        task = asyncio.ensure_future(Installation(state_dir, options).run(ready))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            click.echo("Kuota has stopped. Running pods continue.")

    try:
        loop.run(serve())
    except (OSError, CannotListen, StoreError, TlsError, TokenError, NodesError) as error:
        raise click.ClickException(_failure(error, state_dir, options)) from error
    except BaseExceptionGroup as failures:
        traceback.print_exception(failures)
        raise click.ClickException(_broken(failures)) from failures


def _broken(failures: BaseExceptionGroup[BaseException]) -> str:
    """Return the message for a running server that failed."""
    from kuota.failures import cause

    found = cause(failures)
    return (
        f"Kuota has stopped because one of its parts failed: {found!r}. Running pods continue. "
        "Start Kuota again with the same command; it continues from the stored state"
    )


def _failure(error: Exception, state_dir: StateDir, options: UpOptions) -> str:
    """Return the message for a failed start: the reason and what to do."""
    from kuota.listening import CannotListen
    from kuota.server.store_schema import Damaged, DataLost

    if isinstance(error, CannotListen):
        external_listener = options.external_listener
        external = external_listener is not None and (
            external_listener.host,
            external_listener.port,
        ) == (error.host, error.port)
        option = "--address" if external else "--port"
        return f"{error}. Free the port, or choose another one with {option}"
    if isinstance(error, DataLost | Damaged):
        return f"{error}\n{_rescue(state_dir, isinstance(error, DataLost))}"
    if not isinstance(error, OSError):
        return str(error)
    return unusable_state(state_dir, os.strerror(error.errno) if error.errno else str(error))


def _rescue(state_dir: StateDir, readable: bool) -> str:
    """Return what to do about a store that is damaged or incomplete."""
    from kuota.up.backups import Backups

    found = Backups(state_dir.backups).found()
    if found:
        newest = f"the newest of {len(found)} backups is of {found[0].at:%Y-%m-%d %H:%M} UTC"
        lines = [f"Restore a backup with `kuota restore latest`; {newest}."]
    else:
        lines = ["Restore a backup with `kuota restore FILE`; there are no automatic ones yet."]
    if readable:
        lines.append("Or continue with what is left: `kuota up --accept-loss`.")
    else:
        lines.append(f"Or move {state_dir.store} away to start without any objects.")
    return "\n".join(["Nothing was started or changed.", *lines])
