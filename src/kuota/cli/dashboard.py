# SPDX-License-Identifier: Apache-2.0
"""`kuota dashboard`: opens the web dashboard with a link that signs the user in once."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .connect import Choice, Failed, conduct, connection_of, local_state_dir, server_options

if TYPE_CHECKING:
    from kuota.kube.config import Connection

    from .session import Session

_ON_A_CLUSTER = """this server issues no sign-in codes; only `kuota up` does.
On a cluster, open the address of the dashboard and sign in with a token:
  kubectl -n kueue-system port-forward service/kueue-dashboard 8443:443
  kubectl -n NAMESPACE create token SERVICE-ACCOUNT"""
_READING_S = 10.0
"""How long a browser has to read the file with the link."""


@click.command("dashboard")
@click.option("--no-open", is_flag=True, help="Print the link, and do not open a browser.")
@click.option("--print", "only_link", is_flag=True, help="Print nothing but the link.")
@server_options
def command(no_open: bool, only_link: bool, choice: Choice) -> None:
    """Open the dashboard of the server in a browser, signed in as you.

    The link works once, and for five minutes. Its code is behind the # and is therefore not sent
    with requests, so no log contains it. The session has your permissions, and ends when your token
    is revoked.

    \b
    Examples:
      kuota dashboard
      ssh -L 6443:127.0.0.1:6443 gpu-box    # then open the link of `kuota dashboard --print` here
    """

    async def work(session: Session) -> None:
        import asyncio

        link = await _link(session, choice)
        if only_link:
            click.echo(link)
            return
        with ExitStack() as files:
            opened = not no_open and _opened(link, files)
            words = "Opened" if opened else "Open this link in a browser"
            click.echo(f"{words}: {link}")
            click.echo(
                "It works once, within 5 minutes. A certificate that Kuota created itself causes a "
                "warning of the browser at the first visit."
            )
            if opened:
                await asyncio.sleep(_READING_S)

    conduct(choice, work)


async def _link(session: Session, choice: Choice) -> str:
    """Return a link with a new one-time code. Raises Failed if the server has no dashboard."""
    from kuota.dashboard.sessions import CODES_PATH
    from kuota.kube.errors import NotFound
    from kuota.kube.requests import HttpRequest

    asked = HttpRequest(method="POST", path=CODES_PATH, body=b"{}")
    try:
        found, _ = await session.answer(asked)
    except NotFound:
        raise Failed(_ON_A_CLUSTER) from None
    return f"{_base(connection_of(choice), choice)}{found['path']}#code={found['code']}"


def _base(connection: Connection, choice: Choice) -> str:
    """Return the address of the server for browsers, which cannot use Unix sockets."""
    if not connection.server.startswith("unix:"):
        return connection.server.rstrip("/")
    state_dir = local_state_dir(choice)
    running = state_dir.running() if state_dir is not None else None
    if running is None:
        raise Failed("browsers cannot use a Unix socket; select the server's https address")
    return f"https://127.0.0.1:{running.port}"


def _opened(link: str, files: ExitStack) -> bool:
    """Whether a browser of this desktop opened the link. A terminal browser is not started."""
    import os
    import webbrowser

    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(_private_page(link, files).as_uri())
    except (webbrowser.Error, OSError):
        return False


def _private_page(link: str, files: ExitStack) -> Path:
    """Return a file of this user that leads to the link; `files` deletes it. Raises OSError.

    All users of the machine can read the arguments of a process, so the code must not be one.
    """
    import html
    import os
    from tempfile import TemporaryDirectory

    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    parent = Path(runtime) if os.path.isdir(runtime) else Path.home() / ".cache"
    parent.mkdir(parents=True, exist_ok=True)
    # The directory has the mode 0700.
    page = Path(files.enter_context(TemporaryDirectory(prefix="kuota-", dir=parent))) / "open.html"
    target = html.escape(link, quote=True)
    page.touch(mode=0o600)
    page.write_text(
        '<!DOCTYPE html><meta charset="utf-8"><title>Kuota</title>'
        f'<meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Dashboard</a>\n'
    )
    return page
