# SPDX-License-Identifier: Apache-2.0
"""`kuota token`: creates, lists and revokes tokens for the control plane of this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .connect import ANSWER_S, require_owner, state_dir_option
from .groups import CommandGroup

if TYPE_CHECKING:
    from kuota.api.base import Json
    from kuota.server.tokens import TokenFile
    from kuota.up.state_dir import StateDir

_FILE = click.Path(dir_okay=False, path_type=Path)
_RIGHTLESS = "is not in a team and may only read queues. Fix: --team NAME"


@click.group("token", cls=CommandGroup)
def command() -> None:
    """Manage tokens for the control plane of this machine.

    Changes take effect immediately. Users of this machine can also use the Unix socket without a
    token; they are identified by their uid.
    """


@command.command("create")
@click.argument("user")
@click.option(
    "--team", "teams", multiple=True, metavar="NAME", help="A team of the user. May be repeated."
)
@click.option("--admin", is_flag=True, help="Grant all permissions.")
@click.option(
    "--manager", is_flag=True, help="For the MultiKueue manager of another cluster: dispatch work."
)
@click.option("--metrics", is_flag=True, help="For Prometheus: read the metrics of all teams.")
@click.option(
    "--uid",
    default="",
    metavar="NUMBER",
    help="The uid of the user's processes. The default is the local user of that name.",
)
@click.option(
    *("-n", "--namespace"),
    default="",
    metavar="NAME",
    help="The default namespace in the kubeconfig. If the team has only one, it is that one.",
)
@click.option(
    "--server", default="", metavar="URL", help="The URL for other machines, as in `up --address`."
)
@click.option(
    "--certificate-authority", "authority", type=_FILE, help="The CA of that server's certificate."
)
@click.option(
    "--out", type=_FILE, help="Write the kubeconfig to a new file that only you can read."
)
@state_dir_option
def create(
    user: str,
    teams: tuple[str, ...],
    admin: bool,
    manager: bool,
    metrics: bool,
    uid: str,
    namespace: str,
    server: str,
    authority: Path | None,
    out: Path | None,
    state_dir: StateDir,
) -> None:
    """Create a token for USER and print a kubeconfig.

    Members of a team work in the namespaces with the label kuota.dev/team=NAME.

    \b
    Examples:
      kuota token create ann --team vision -n vision --out ann.kubeconfig
      kubectl label namespace vision kuota.dev/team=vision
    """
    from kuota.up import kubeconfig

    cluster = _cluster(state_dir, server, authority)
    if out is not None and out.exists():
        raise click.ClickException(f"{out} already exists; choose another file")
    groups = [*teams, *_roles(admin=admin, manager=manager, metrics=metrics)]
    token = _given(_tokens(state_dir), user, groups, uid or _uid_of(user))
    namespace = namespace or _only_namespace(state_dir, teams)
    content = kubeconfig.content(cluster, token, namespace)
    _warn(state_dir, user, groups)
    if out is None:
        click.echo(content, nl=False)
    else:
        _write(out, content, user, teams)


def _cluster(state_dir: StateDir, server: str, authority: Path | None) -> Json:
    """Return the cluster entry for the kubeconfig. Raises ClickException."""
    from kuota.up import kubeconfig

    require_owner(state_dir)
    if server:
        return kubeconfig.cluster(server, authority.read_bytes() if authority else b"")
    found = kubeconfig.cluster_of(state_dir.kubeconfig)
    if found is None:
        raise click.ClickException(f"{state_dir.kubeconfig} does not exist: start `kuota up` first")
    return found


def _only_namespace(state_dir: StateDir, teams: tuple[str, ...]) -> str:
    """Return the namespace of the teams if there is exactly one, and otherwise say what to do.

    Returns "" as well if the control plane does not run or does not respond.
    """
    found = _namespaces(state_dir, teams) if teams and state_dir.running() is not None else None
    if found is None:
        return ""
    if len(found) == 1:
        click.echo(f"The default namespace in the kubeconfig is {found[0]}.", err=True)
        return found[0]
    if found:
        words = f"The teams have several namespaces: {', '.join(found)}. Choose a default with -n."
    else:
        words = f"No namespace belongs to team {teams[0]} yet. To create one, run:\n" + (
            f"  kubectl create namespace {teams[0]}\n"
            f"  kubectl label namespace {teams[0]} kuota.dev/team={teams[0]}"
        )
    click.echo(words, err=True)
    return ""


def _namespaces(state_dir: StateDir, teams: tuple[str, ...]) -> list[str] | None:
    """Return the namespaces of the teams; None if the control plane does not respond."""
    import asyncio

    from kuota.kube.errors import KubeError
    from kuota.kube.resources import NAMESPACES

    from .connect import connection_to
    from .own_namespaces import team_namespaces
    from .session import opened

    async def asked() -> list[str]:
        async with asyncio.timeout(ANSWER_S), opened(connection_to(state_dir)) as session:
            return team_namespaces((await session.client.list(NAMESPACES)).items, teams)

    try:
        return asyncio.run(asked())
    except (KubeError, TimeoutError):
        return None


def _roles(*, admin: bool, manager: bool, metrics: bool) -> list[str]:
    """Return the groups of the chosen roles."""
    from kuota.api.worker_role import MANAGERS
    from kuota.server.auth import METRICS_READERS
    from kuota.server.requests import ADMINS

    chosen = ((ADMINS, admin), (MANAGERS, manager), (METRICS_READERS, metrics))
    return [group for group, wanted in chosen if wanted]


@command.command("list")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
@state_dir_option
def list_(output: str, state_dir: StateDir) -> None:
    """List the users who have tokens, and their groups. The tokens are not shown.

    \b
    Examples:
      kuota token list
      kuota token list -o json
    """
    from .output import FORMATS, show, show_table

    if not state_dir.root.exists():
        raise click.ClickException(f"{state_dir.root} does not exist: start `kuota up` first")

    holders = _tokens(state_dir).holders()
    if output in FORMATS:
        facts = [(each.id, each.user, each.uid, list(each.groups)) for each in holders]
        names = ("id", "user", "uid", "groups")
        show([dict(zip(names, each, strict=True)) for each in facts], output)
        return
    rows = [[each.id, each.user, each.uid or "-", ",".join(each.groups) or "-"] for each in holders]
    show_table(["id", "user", "uid", "groups"], rows)


@command.command("revoke")
@click.argument("user", default="")
@click.option(
    "--id",
    "id_",
    default="",
    metavar="ID",
    help="Revoke only this token. `kuota token list` shows the IDs.",
)
@state_dir_option
def revoke(user: str, id_: str, state_dir: StateDir) -> None:
    """Revoke the tokens of USER. Their watches and sessions end; running Jobs continue.

    \b
    Examples:
      kuota token revoke ann
      kuota token revoke --id 3f9c0a1b
    """
    from kuota.server.tokens import TokenError

    if bool(user) == bool(id_):
        raise click.UsageError("give a USER, or one token with --id")
    tokens = _tokens(state_dir)
    try:
        gone = tokens.revoke(user, id_)
    except (OSError, TokenError) as error:
        raise click.ClickException(str(error)) from None
    if not gone:
        raise click.ClickException(f"no token of {user or id_}; see `kuota token list`")
    for each in gone:
        click.echo(f"token {each.id} of {each.user} revoked")
    _keep_owner(state_dir, tokens)


def _warn(state_dir: StateDir, user: str, groups: list[str]) -> None:
    """State how far the control plane separates the processes of members."""
    import os

    from kuota.api.worker_role import MANAGERS
    from kuota.runner.isolation import available
    from kuota.server.auth import METRICS_READERS
    from kuota.server.requests import ADMINS
    from kuota.up.separation import separation, warnings

    if not groups:
        click.echo(f"{user} {_RIGHTLESS}", err=True)
    if {ADMINS, MANAGERS} & set(groups) or groups == [METRICS_READERS]:
        return
    running = state_dir.running()
    if running is not None:
        found = separation(running.run_as, running.isolation)
    else:
        found = separation(0 if os.geteuid() == 0 else None, available())
    for sentence in warnings(found):
        click.echo(sentence, err=True)


def _tokens(state_dir: StateDir) -> TokenFile:
    """Return the token file, which is created if it does not exist. Raises ClickException."""
    from kuota.server.tokens import TokenError, TokenFile, admin_token

    try:
        state_dir.prepare()
        if not state_dir.tokens.exists():
            admin_token(state_dir.tokens)
        return TokenFile(state_dir.tokens)
    except PermissionError:
        raise click.ClickException(f"you may not read {state_dir.tokens}; ask its owner") from None
    except (OSError, TokenError) as error:
        raise click.ClickException(str(error)) from None


def _given(tokens: TokenFile, user: str, groups: list[str], uid: str) -> str:
    from kuota.server.tokens import TokenError

    try:
        return tokens.give(user, groups, uid)
    except TokenError as error:
        raise click.ClickException(str(error)) from None


def _keep_owner(state_dir: StateDir, tokens: TokenFile) -> None:
    """Create a new token for the owner of the control plane if theirs was revoked."""
    from kuota.server.requests import ADMINS
    from kuota.server.tokens import OWNER
    from kuota.up import kubeconfig

    if any(each.user == OWNER for each in tokens.holders()):
        return
    token = tokens.give(OWNER, [ADMINS])
    cluster = kubeconfig.cluster_of(state_dir.kubeconfig)
    if cluster is not None:
        kubeconfig.replace(state_dir.kubeconfig, kubeconfig.content(cluster, token))
    click.echo(f"{OWNER} has a new token in {state_dir.kubeconfig}")


def _uid_of(user: str) -> str:
    """Return the uid of the local user of that name; "" if there is none, or for root."""
    import pwd

    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return ""
    return str(uid) if uid else ""


def _write(path: Path, content: str, user: str, teams: Iterable[str]) -> None:
    """Write a new private file. Root transfers it to the local user; otherwise we own it."""
    import os

    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        uid = _uid_of(user)
        if uid and os.geteuid() == 0:
            os.fchown(descriptor, int(uid), -1)
    click.echo(f"wrote {path}")
    for team in teams:
        click.echo(f"{user} can use the namespaces with the label kuota.dev/team={team}")
