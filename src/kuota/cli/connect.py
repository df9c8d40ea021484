# SPDX-License-Identifier: Apache-2.0
"""Options that all commands share, and the API server that they select.

Exit status of every command that talks to a server: 0 on success, 1 if the server rejected the
request or the work failed, 2 for wrong usage, 3 if no server could be reached. Imported with every
command: nothing heavy may be imported here.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from kuota.kube.config import Connection
    from kuota.kube.errors import ApiError, KubeError
    from kuota.up.state_dir import StateDir

    from .session import Session

MANAGER = "kuota"
"""Field manager of what commands write."""
FAILED = 1
UNREACHED = 3
INTERRUPTED = 130
ANSWER_S = 5.0
"""Timeout of requests for additional information. Afterwards a command continues without it."""
PATH = click.Path(allow_dash=True)
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """The server and namespace that the user selected. Empty fields were not given."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


class Failed(click.ClickException):
    """The command could not do what was requested."""

    exit_code = FAILED


class ServerUnreachable(click.ClickException):
    """No server could be reached."""

    exit_code = UNREACHED


def server_options(function: F) -> F:
    """Adds the options that name a server; the command gets them as one `choice`."""

    @click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use.")
    @click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
    @click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace to use.")
    @functools.wraps(function)
    def wrapped(*args: Any, kubeconfig: str, context: str, namespace: str, **options: Any) -> Any:
        choice = Choice(kubeconfig, context, namespace)
        return function(*args, choice=choice, **options)

    return wrapped  # type: ignore[return-value]


def filename_option() -> Callable[[F], F]:
    """Adds the option -f, which names manifests; the command gets `filenames`."""
    return click.option(
        *("-f", "--filename", "filenames"),
        multiple=True,
        type=PATH,
        metavar="FILE",
        help="A file, a directory (read recursively), or - for standard input. May be repeated.",
    )


def state_dir_option(function: F) -> F:
    """Adds the option --state; the command gets it as `state_dir`."""

    @click.option(
        "--state",
        type=click.Path(readable=False),
        metavar="DIRECTORY",
        help="The state directory of `kuota up`.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, state: str | None, **options: Any) -> Any:
        from pathlib import Path

        from kuota.up.state_dir import StateDir, default_state_dir

        state_dir = StateDir(Path(state)) if state is not None else default_state_dir()
        return function(*args, state_dir=state_dir, **options)

    return wrapped  # type: ignore[return-value]


def require_owner(state_dir: StateDir) -> None:
    """Raise Failed if the state directory belongs to another user, who alone may read it."""
    if os.path.exists(state_dir.root) and not os.access(state_dir.root, os.R_OK):
        raise Failed(f"{state_dir.root} belongs to another user; ask its owner, or use sudo")


def conduct(choice: Choice, work: Callable[[Session], Awaitable[int | None]]) -> NoReturn:
    """Run `work` in a session with the selected server, and exit with the status it returns."""
    import asyncio

    from kuota.kube.errors import Forbidden, KubeError

    from .session import opened

    async def conducted() -> int:
        async with opened(connection_of(choice), choice.namespace) as session:
            try:
                return await work(session) or 0
            except Forbidden as error:
                from .own_namespaces import forbidden

                raise Failed(await forbidden(session, error)) from None

    try:
        status = asyncio.run(conducted())
    except KubeError as error:
        raise explained(error) from None
    except KeyboardInterrupt:
        click.echo(err=True)
        status = INTERRUPTED
    sys.exit(status)


def connection_of(choice: Choice) -> Connection:
    """Return the connection to the selected server. Raises ServerUnreachable if there is none."""
    from pathlib import Path

    from kuota.kube.config import connection, from_kubeconfig

    state_dir = local_state_dir(choice)
    if state_dir is None:
        return connection(choice.kubeconfig, choice.context)
    if not choice.context:
        return connection_to(state_dir)
    home = Path.home() / ".kube" / "config"
    return from_kubeconfig(
        [state_dir.kubeconfig, *([home] if home.exists() else [])], choice.context
    )


def local_state_dir(choice: Choice) -> StateDir | None:
    """Return the control plane of this machine if it is the selected server.

    None means that a kubeconfig or the environment selects another server. Raises
    ServerUnreachable if no server is configured.
    """
    from pathlib import Path

    from kuota.up.state_dir import default_state_dir, shared_state_dir

    if choice.kubeconfig and not Path(choice.kubeconfig).expanduser().exists():
        raise ServerUnreachable(f"--kubeconfig {choice.kubeconfig}: there is no such file")
    if choice.kubeconfig or os.environ.get("KUBECONFIG"):
        return None
    state_dir = default_state_dir()
    if state_dir.running() is not None and state_dir.kubeconfig.exists():
        return state_dir
    home = Path.home() / ".kube" / "config"
    if home.exists() or "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    shared = shared_state_dir()
    if shared is not None:
        return shared
    raise ServerUnreachable(
        f"no server to talk to: none runs from {state_dir.root}, $KUBECONFIG is not set, and "
        f"there is no {home}.\nStart one with `kuota up`, or name a cluster with --kubeconfig FILE."
    )


def connection_to(state_dir: StateDir) -> Connection:
    """Return the connection to the control plane that runs from the state directory."""
    from kuota.kube.config import Connection, from_kubeconfig

    if not os.access(state_dir.kubeconfig, os.R_OK):
        # The server belongs to another user, and authenticates us by our uid.
        return Connection(server=f"unix://{state_dir.socket}")
    return from_kubeconfig([state_dir.kubeconfig])


def explained(error: KubeError) -> click.ClickException:
    """Return the error for the user: what failed, why, and what to do."""
    from kuota.kube.errors import ApiError, ConfigError, InvalidName, Unreachable

    if isinstance(error, InvalidName):
        return click.UsageError(str(error))
    if isinstance(error, Unreachable) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ServerUnreachable(
            f"the certificate of the server cannot be verified: {error}\n"
            "The kubeconfig has no certificate-authority-data, or that of another server."
        )
    if isinstance(error, Unreachable):
        return ServerUnreachable(
            f"the server does not answer: {error}\n"
            "If it is the control plane of this machine, `kuota status` shows whether it runs, and "
            "`kuota up` starts it. Choose another server with --kubeconfig or --context."
        )
    if isinstance(error, ConfigError):
        return ServerUnreachable(str(error))
    return Failed(rejection(error) if isinstance(error, ApiError) else str(error))


def rejection(error: ApiError) -> str:
    """Return the server's message, a line per fault, and a suggestion if there is one."""
    from kuota.kube.errors import Conflict, Forbidden, Unauthorized

    causes = error.causes
    lines = [error.message]
    if len(causes) > 1:
        # The message repeats all faults in one line: "… is invalid: [FIELD: FAULT, FIELD: FAULT]".
        faults = [f"  {each.get('field', '')}: {each.get('message', '')}" for each in causes]
        head, listed, _ = error.message.partition(": [")
        lines = [f"{head}:" if listed else error.message, *faults]
    if isinstance(error, Unauthorized):
        lines.append(
            "The server does not accept these credentials: the token was revoked or has expired, "
            "or the kubeconfig is for another server. Ask an admin for a new one."
        )
    elif isinstance(error, Forbidden) and is_denied(error):
        own = ", or use a namespace of your team with -n" if "in the namespace" in lines[0] else ""
        lines.append(f"Ask an admin for access{own}.")
    elif isinstance(error, Conflict) and causes:
        lines.append("Take these fields over with --force-conflicts, or leave them out.")
    return "\n".join(lines)


def is_denied(error: ApiError) -> bool:
    """Whether the user has no permission. Other requests are forbidden to everybody."""
    return 'User "' in error.message and '" cannot ' in error.message
