# SPDX-License-Identifier: Apache-2.0
"""`kuota install`: installs the controller and everything that it needs in a cluster.

Applies the CustomResourceDefinitions, then the controller, then the webhooks that depend on it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from kuota.api.base import Json, Key
from kuota.api.faults import Invalid
from kuota.install.configuration import UnknownKinds, configuration, frameworks_named
from kuota.install.objects import DEPLOYMENTS, definitions, hooks, objects, parts, resource_of
from kuota.install.settings import CONTROLLER, SELECTED, Settings, Unusable, settings
from kuota.kube.errors import ApiError, NotFound
from kuota.kube.requests import WriteOptions
from kuota.kube.resources import PODS

from .amounts import Integer, Number
from .apply import applied
from .connect import FAILED, Choice, Failed, conduct, rejection, server_options
from .output import name_text, show
from .progress import Progress
from .session import until

if TYPE_CHECKING:
    from .session import Session

TIMEOUT_S = 180.0
MANAGER = "kuota-install"
"""Field manager of the installation. The controller owns other fields of the same objects."""
_OUTCOMES = ("created", "configured", "unchanged", "failed")


@click.command("install")
@click.option("--image", default="", metavar="NAME[:TAG]", help="The container image.")
@click.option(
    "--replicas",
    type=Integer(0),
    metavar="N",
    help="The number of replicas. The default is 2.",
)
@click.option("--config", type=click.File(), metavar="FILE", help="A configuration file of Kueue.")
@click.option(
    "--kinds",
    default="",
    metavar="KIND,…",
    help="The job kinds to queue, such as Job,JobSet,Pod. The default is Kueue's list.",
)
@click.option(
    "--feature-gates", default="", metavar="NAME=BOOL,…", help="Feature gates, as for Kueue."
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value of the Helm chart, such as enablePrometheus=true. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Print the objects without contacting a server.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), help="The format of --dry-run."
)
@click.option(
    "--force-conflicts", is_flag=True, help="Take over fields of other managers, such as Kueue."
)
@click.option("--wait/--no-wait", default=True, help="Whether to wait for the controller.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(0, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
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
    """Install the controller in a cluster, by default in namespace kueue-system.

    Applies the CustomResourceDefinitions and the controller, waits until the controller is
    available, and then applies the webhooks. The command is idempotent.

    \b
    Examples:
      kuota install --dry-run | less
      kuota install --image registry.example/kuota:0.1.0
      kuota install --kinds Job,JobSet,RayJob
      kuota install --set enablePrometheus=true --set controllerManager.replicas=3
    """
    settings = _settings(choice.namespace, **chosen)
    if dry_run:
        _print(settings, output or "yaml")
        return
    if output:
        raise click.UsageError("-o is for --dry-run, which prints the objects")

    async def work(session: Session) -> int:
        installing = Installing(session, settings, force=force_conflicts)
        return await installing.run(timeout_s if wait else None)

    conduct(choice, work)


def _settings(
    namespace: str,
    image: str,
    replicas: int | None,
    config: TextIO | None,
    kinds: str,
    feature_gates: str,
    values: tuple[str, ...],
) -> Settings:
    """Return the settings from the options. Raises ClickException if they are invalid."""
    from kuota.api.config.load import checked

    if config is not None and kinds:
        raise click.UsageError(
            "--kinds changes the default configuration, and --config replaces it; name the kinds "
            f"in integrations.frameworks of {config.name} instead"
        )
    repository, tag = _image(image)
    chosen = {
        "namespace": namespace,
        "repository": repository,
        "tag": tag,
        "replicas": replicas,
        "feature_gates": feature_gates,
        "config": config.read() if config is not None else _with_kinds(kinds),
    }
    given = {name: value for name, value in chosen.items() if value not in ("", None)}
    try:
        made = settings(given, dict(_pair(each) for each in values))
        checked(made.config, made.feature_gates, made.namespace)
    except Unusable as error:
        raise click.UsageError(str(error)) from None
    except Invalid as error:
        options = "--kinds, --feature-gates" if kinds else "--feature-gates"
        where = config.name if config is not None else options
        faults = "\n".join(f"{where}: {each}" for each in error.errors)
        raise click.ClickException(f"{faults}\nNothing was installed.") from None
    return made


def _with_kinds(kinds: str) -> str:
    """Return the default configuration with these job kinds; "" if none are named."""
    try:
        return configuration(frameworks_named(kinds)) if kinds else ""
    except UnknownKinds as error:
        raise click.UsageError(f"--kinds: {error}") from None


def _image(image: str) -> tuple[str, str]:
    """Split into name and tag or digest. A colon before the last slash belongs to a port."""
    name, at, digest = image.partition("@")
    if at:
        return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name, digest
    host, slash, last = image.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{host}{slash}{last}", tag


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set {text}: use NAME=VALUE")
    return name, value


def _print(settings: Settings, form: str) -> None:
    made = objects(settings)
    if form == "json":
        show({"apiVersion": "v1", "kind": "List", "items": made}, form)
        return
    from kuota.install.chart import dumped

    click.echo(dumped(made), nl=False)


class Installing:
    """One run of `kuota install`. An error in one object does not prevent the others."""

    def __init__(self, session: Session, settings: Settings, *, force: bool) -> None:
        if session.embedded:
            raise Failed(
                "this server is `kuota up`, which includes the controller. "
                "Select a cluster with --kubeconfig or --context."
            )
        self._session = session
        self._settings = settings
        self._options = WriteOptions(manager=MANAGER, force=force, validation="Strict")
        self._outcomes: Counter[str] = Counter()
        self._progress = Progress()

    async def run(self, timeout_s: float | None) -> int:
        """Install, wait for the controller if there is a timeout, and return the exit status."""
        try:
            return await self._run(timeout_s)
        finally:
            self._progress.clear()

    async def _run(self, timeout_s: float | None) -> int:
        settings = self._settings
        await self._apply([*definitions(settings), *parts(settings)])
        if self._outcomes["failed"]:
            click.echo(
                "The webhooks were not changed, because they depend on the objects above.", err=True
            )
            return self._summed_up()
        if timeout_s is not None and not await self._there(timeout_s):
            click.echo(
                "The webhooks were not changed, because without the controller they would "
                "reject new jobs and pods. Check the pods of Kuota, and install again.",
                err=True,
            )
            return FAILED
        await self._apply(hooks(settings))
        return self._summed_up()

    async def _apply(self, objects: Sequence[Json]) -> None:
        self._progress.show(f"applying {len(objects)} objects")
        for each in objects:
            resource = resource_of(each)
            name = name_text(resource, each)
            try:
                _, outcome = await applied(self._session, resource, each, self._options)
            except ApiError as error:
                outcome = "failed"
                self._progress.clear()
                click.echo(f"Error: {name}: {_worded(error, each)}", err=True)
            self._outcomes[outcome] += 1
            if outcome in ("created", "configured"):
                self._progress.clear()
                click.echo(f"{name} {outcome}")
        self._progress.show("")

    async def _there(self, timeout_s: float) -> bool:
        """Wait until all pods are updated and available. Returns False on timeout."""
        key = Key(self._settings.namespace, CONTROLLER)
        self._progress.show(f"waiting for {self._settings.replicas} pods of {CONTROLLER}")
        try:
            async with asyncio.timeout(timeout_s):
                await until(self._session.client, DEPLOYMENTS, key, _complete)
        except TimeoutError:
            self._progress.clear()
            click.echo(f"Error: the controller is not available after {timeout_s:g} s", err=True)
            for each in await self._troubles():
                click.echo(f"  {each}", err=True)
            return False
        return True

    async def _troubles(self) -> list[str]:
        """Return the reasons why pods are not ready, from their status."""
        selector = ",".join(f"{name}={value}" for name, value in SELECTED.items())
        listed = await self._session.client.list(
            PODS, self._settings.namespace, label_selector=selector
        )
        found = [each for pod in listed.items for each in _pod_troubles(pod)]
        return found or ["no pod was created; is the controller manager of the cluster running?"]

    def _summed_up(self) -> int:
        self._progress.clear()
        counted = self._outcomes
        words = [f"{counted[word]} {word}" for word in _OUTCOMES if counted[word]]
        click.echo(f"{sum(counted.values())} objects: {', '.join(words)}")
        return FAILED if counted["failed"] else 0


def _worded(error: ApiError, obj: Json) -> str:
    if isinstance(error, NotFound) and obj["kind"] in ("ServiceMonitor", "PrometheusRule"):
        return "the cluster has no such kind; install the Prometheus operator first"
    return rejection(error)


def _complete(deployment: Json | None) -> bool:
    """Whether all replicas of the Deployment's current generation are updated and available."""
    if deployment is None:
        return False
    wanted = int(deployment["spec"].get("replicas", 1))
    status = deployment.get("status") or {}
    seen = int(status.get("observedGeneration") or 0)
    counts = (int(status.get(name) or 0) for name in ("updatedReplicas", "availableReplicas"))
    return seen >= int(deployment["metadata"].get("generation") or 0) and min(counts) >= wanted


def _pod_troubles(pod: Json) -> Iterable[str]:
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for each in status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting")
        if waiting:
            yield f"pod {name}: {waiting.get('reason', '')}: {waiting.get('message', '')}"
        elif not each.get("ready"):
            yield f"pod {name}: {each['name']} is not ready"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"pod {name}: {condition.get('message', '')}"
