# SPDX-License-Identifier: Apache-2.0
"""`kuota install`: put the controller, and all that it needs, into a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

import click

from .connect import Choice, conduct, server_options

if TYPE_CHECKING:
    from kuota.install.settings import Settings

    from .session import Session

TIMEOUT_S = 180.0


@click.command("install")
@click.option("--image", default="", metavar="NAME[:TAG]", help="What the pods run.")
@click.option("--replicas", type=click.IntRange(0), metavar="N", help="How many; 2 by default.")
@click.option("--config", type=click.File(), metavar="FILE", help="Kueue's configuration file.")
@click.option("--feature-gates", default="", metavar="NAME=BOOL,…", help="As given to Kueue.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value of the Helm chart, such as enablePrometheus=true. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Print the objects, and ask no server.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="How to print them.")
@click.option("--force-conflicts", is_flag=True, help="Take over what others manage: Kueue's own.")
@click.option("--wait/--no-wait", default=True, help="Wait until the controller is there, or not.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait no longer.",
)
@server_options
def command(
    dry_run: bool,
    output: str | None,
    force_conflicts: bool,
    wait: bool,
    timeout_s: float,
    choice: Choice,
    **chosen: Any,
) -> None:
    """Install the controller in a cluster, in namespace kueue-system unless -n names another.

    Applies the definitions and the controller, waits for it, and only then has the API server ask
    it about jobs and queues. May be repeated: what is there already stays as it is.

    \b
    Examples:
      kuota install --dry-run | less
      kuota install --image registry.example/kuota:0.1.0
      kuota install --set enablePrometheus=true --set controllerManager.replicas=3
    """
    settings = _settings(choice.namespace, **chosen)
    if dry_run:
        _print(settings, output or "yaml")
        return
    if output:
        raise click.UsageError("-o is for --dry-run, which prints the objects")

    async def work(session: Session) -> int:
        from .installing import Installing

        installing = Installing(session, settings, force=force_conflicts)
        return await installing.run(timeout_s if wait else None)

    conduct(choice, work)


def _settings(
    namespace: str,
    image: str,
    replicas: int | None,
    config: TextIO | None,
    feature_gates: str,
    values: tuple[str, ...],
) -> Settings:
    """What the user chose; ends the command when it cannot be."""
    from kuota.api.config.load import checked
    from kuota.api.faults import Invalid
    from kuota.install.settings import Unusable, settings

    repository, tag = _image(image)
    chosen = {
        "namespace": namespace,
        "repository": repository,
        "tag": tag,
        "replicas": replicas,
        "feature_gates": feature_gates,
        "config": config.read() if config is not None else "",
    }
    given = {name: value for name, value in chosen.items() if value not in ("", None)}
    try:
        made = settings(given, dict(_pair(each) for each in values))
        checked(made.config, made.feature_gates, made.namespace)
    except Unusable as error:
        raise click.UsageError(str(error)) from None
    except Invalid as error:
        where = config.name if config is not None else "--feature-gates"
        faults = "\n".join(f"{where}: {each}" for each in error.errors)
        raise click.ClickException(f"{faults}\nNothing was installed.") from None
    return made


def _image(image: str) -> tuple[str, str]:
    """Name and tag, or name and digest. A colon before the last slash belongs to a port."""
    name, at, digest = image.partition("@")
    if at:
        return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name, digest
    host, slash, last = image.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{host}{slash}{last}", tag


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set {text}: say NAME=VALUE")
    return name, value


def _print(settings: Settings, form: str) -> None:
    from kuota.install.objects import objects

    made = objects(settings)
    if form == "json":
        from .output import show

        show({"apiVersion": "v1", "kind": "List", "items": made}, form)
        return
    from kuota.install.chart import dumped

    click.echo(dumped(made), nl=False)
