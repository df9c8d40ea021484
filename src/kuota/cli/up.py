# SPDX-License-Identifier: Apache-2.0
"""`kuota up`: start the control plane of this machine, and run work on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from kuota.up.installation import Door, Wishes
    from kuota.up.place import Place

DOOR = 6443
"""The port of an address that names none, as other API servers have it."""
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
START_S = 30.0
"""How long a detached start may take before it counts as failed."""


@click.command("up")
@click.option("--state", type=click.Path(path_type=Path), help="Where to keep everything.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="On 127.0.0.1; 0 is that of the last time, or any free one.",
)
@click.option("--address", default="", metavar="HOST[:PORT]", help="Let others in there too.")
@click.option("--tls-cert", type=_PATH, metavar="FILE", help="The certificate for --address.")
@click.option("--tls-key", type=_PATH, metavar="FILE", help="Its private key.")
@click.option("--gpus", type=click.IntRange(0), default=0, help="Offer so many pretend GPUs.")
@click.option("--nodes", type=click.File(), help="Node manifests: pretend Nodes, run here.")
@click.option("--config", type=click.File(), help="Kueue's own configuration file.")
@click.option("--feature-gates", default="", metavar="NAME=BOOL,…", help="As given to Kueue.")
@click.option("--run-as", metavar="USER", help="As root: who runs pods that name nobody.")
@click.option("--allow-root", is_flag=True, help="As root: let pods run as root.")
@click.option("--detach", is_flag=True, help="Return once it is ready; `kuota down` ends it.")
def command(
    state: Path | None, run_as: str | None, allow_root: bool, detach: bool, **chosen: Any
) -> None:
    """Start the control plane of this machine, and run work on it.

    Serves the Kubernetes API on 127.0.0.1 for kubectl and others, queues Jobs as Kueue does, and
    runs their pods as processes of this machine. Stopping it leaves running work alone; the next
    start takes it up again. Another address needs a certificate, since tokens travel there;
    `kuota token` says who has one.
    """
    from kuota.up.place import Place, default_place

    place = Place(state) if state is not None else default_place()
    running = place.running()
    if running is not None:
        raise click.ClickException(
            f"it runs already from {place.root} (pid {running.pid}): `kuota down` ends it"
        )
    if os.geteuid() == 0 and not run_as and not allow_root:
        click.echo(
            "Runs as root: pods that name no user will be refused. "
            "Say who they run as with --run-as USER, or --allow-root.",
            err=True,
        )
    _check_door(chosen["address"], chosen["tls_cert"], chosen["tls_key"])
    if detach:
        _detach(place)
        return
    _serve(place, _wishes(run_as=run_as, allow_root=allow_root, **chosen))


def _wishes(
    *,
    port: int,
    address: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    gpus: int,
    nodes: TextIO | None,
    config: TextIO | None,
    feature_gates: str,
    run_as: str | None,
    allow_root: bool,
) -> Wishes:
    from kuota.api.config.load import checked
    from kuota.api.faults import Invalid
    from kuota.api.gates import resolved
    from kuota.runner.nodes import NodesError, described
    from kuota.up.installation import Wishes

    try:
        if config is not None:
            settings, gates = checked(config.read(), feature_gates)
        else:
            settings, gates = None, resolved(feature_gates, None)
        plans = tuple(described(nodes.read())) if nodes is not None else ()
    except Invalid as error:
        raise click.ClickException("\n".join(str(each) for each in error.errors)) from error
    except NodesError as error:
        raise click.ClickException(str(error)) from error
    return Wishes(
        port=port,
        door=_door(address, tls_cert, tls_key),
        pretend_gpus=gpus,
        nodes=plans,
        config=settings,
        gates=gates,
        run_as=_uid(run_as) if run_as else None,
        allow_root=allow_root,
    )


def _check_door(address: str, certificate: Path | None, key: Path | None) -> None:
    """End the command where tokens would travel in the clear."""
    given = [bool(each) for each in (address, certificate, key)]
    if any(given) and not all(given):
        raise click.UsageError(
            "--address needs --tls-cert and --tls-key, and they need it: without TLS everybody on "
            "the way could read tokens"
        )


def _door(address: str, certificate: Path | None, key: Path | None) -> Door | None:
    """Where others come in; ends the command when that cannot be."""
    import ssl
    from urllib.parse import urlsplit

    from kuota.up.installation import Door

    if not address or not certificate or not key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port or DOOR
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--address {address}: {error}") from None
    if not host:
        raise click.UsageError(f"--address {address}: say HOST or HOST:PORT")
    return Door(host, port, context)


def _uid(user: str) -> int:
    import pwd

    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise click.ClickException(f"there is no user {user} on this machine") from None


def _serve(place: Place, wishes: Wishes) -> None:
    import asyncio
    import signal

    from kuota.up.installation import Installation

    def ready(port: int) -> None:
        click.echo(f"Kuota answers on https://127.0.0.1:{port}")
        click.echo(f"  export KUBECONFIG={place.kubeconfig}")

    async def serve() -> None:
        task = asyncio.ensure_future(Installation(place, wishes).run(ready))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            click.echo("Kuota has stopped. Running work goes on.")

    asyncio.run(serve())


def _detach(place: Place) -> None:
    """Start the same command again, apart from this terminal, and wait until it answers."""
    import subprocess
    import time

    place.prepare()
    arguments = [each for each in sys.argv[1:] if each != "--detach"]
    with open(place.log, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kuota.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    deadline = time.monotonic() + START_S
    while place.running() is None:
        if process.poll() is not None:
            raise click.ClickException(f"it did not start; see {place.log}")
        if time.monotonic() > deadline:
            raise click.ClickException(f"it is not ready after {START_S:.0f} s; see {place.log}")
        time.sleep(0.05)
    click.echo(f"Kuota runs (pid {process.pid}); `kuota down` ends it")
    click.echo(f"  export KUBECONFIG={place.kubeconfig}")
