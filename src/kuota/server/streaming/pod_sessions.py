# SPDX-License-Identifier: Apache-2.0
"""Creates the session of a request for `pods/exec`, `pods/attach` or `pods/portforward`.

Checks everything that can be checked before the connection is upgraded, so that a mistake is
answered with a Status.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import parse_qs

from kuota.api.base import Json
from kuota.api.core import RUN_AS, is_trusted
from kuota.api.status import StatusError, bad_request

from ..columns import dig, listed
from ..kinds import Kind
from ..pods import chosen_container
from ..requests import ADMINS, Request, User
from ..status import conflict, forbidden
from .port_forward import MOST_PORTS, Connection
from .protocols import StreamSession
from .remote_command import CommandOptions, RemoteProcess
from .sessions import CommandSession, ForwardSession
from .upgrade import is_upgrade

SUBRESOURCES = ("exec", "attach", "portforward")


class PodProcesses(Protocol):
    """The processes of pods. `pod` was running when the request was authorized."""

    async def exec(self, pod: Json, options: CommandOptions) -> RemoteProcess:
        """Start a process in the container. Raises CommandFailed."""

    async def attach(self, pod: Json, options: CommandOptions) -> RemoteProcess:
        """Attach to the process of the container. Raises CommandFailed."""

    async def connect(self, pod: Json, port: int) -> Connection:
        """Connect to a port on which the pod listens. Raises ConnectionError."""


def pod_session(
    kind: Kind, pod: Json, subresource: str, request: Request, processes: PodProcesses
) -> StreamSession:
    """The session that the request asks for. Raises StatusError."""
    if not is_upgrade(request.headers):
        raise bad_request(
            "Upgrade request required: exec, attach and portforward need a client that upgrades "
            "the connection, such as kubectl"
        )
    if subresource != "portforward":
        check_user(kind, pod, request.user)
    check_running(kind, pod)
    query = parse_qs(request.query_string, keep_blank_values=True)
    user = request.user.flow
    if subresource == "portforward":

        async def connect(port: int) -> Connection:
            return await processes.connect(pod, port)

        return ForwardSession(user, connect, _ports(query.get("ports", [])))
    options = command_options(pod, request, tuple(query.get("command", ())))
    if subresource == "exec" and not any(options.command[:1]):
        raise bad_request("you must specify a command: `kubectl exec POD -- COMMAND`")

    async def start() -> RemoteProcess:
        begin = processes.exec if subresource == "exec" else processes.attach
        return await begin(pod, options)

    return CommandSession(user, options, start)


def check_user(kind: Kind, pod: Json, user: User) -> None:
    """Raise StatusError if a command in the pod would have rights that its caller lacks.

    A team shares its namespaces, but each member has a user of the machine, and pods of admins may
    run as root.
    """
    if ADMINS in user.groups:
        return
    name, uid = str(dig(pod, "metadata", "name")), dig(pod, "metadata", "annotations", RUN_AS)
    if is_trusted(pod):
        raise forbidden(kind, name, "an admin submitted the pod, and only admins may enter it")
    if uid is not None and uid != user.uid:
        why = f"the pod runs as user {uid}, and only that user and admins may enter it"
        raise forbidden(kind, name, why)


def check_running(kind: Kind, pod: Json) -> None:
    """Raise StatusError unless the pod is running."""
    phase = dig(pod, "status", "phase")
    if phase != "Running":
        name = str(dig(pod, "metadata", "name"))
        why = f"the pod is {phase or 'Pending'}, and only a running pod has processes"
        raise conflict(kind, name, why)


def command_options(pod: Json, request: Request, command: tuple[str, ...]) -> CommandOptions:
    """The options of exec and attach. Raises StatusError if they are invalid."""
    tty = request.flag("tty")
    options = CommandOptions(
        container=chosen_container(pod, request.query.get("container", "")),
        command=command,
        stdin=request.flag("stdin"),
        stdout=request.flag("stdout"),
        # A terminal has only one output.
        stderr=request.flag("stderr") and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if any("\0" in each for each in command):
        raise bad_request("a command cannot contain NUL characters")
    _check_container(pod, options.container)
    return options


def _check_container(pod: Json, container: str) -> None:
    statuses = [
        each
        for field in ("initContainerStatuses", "containerStatuses")
        for each in listed(dig(pod, "status", field))
        if dig(each, "name") == container
    ]
    if not any(dig(each, "state", "running") is not None for each in statuses):
        name = dig(pod, "metadata", "name")
        raise StatusError(
            400, "BadRequest", f'container "{container}" in pod "{name}" is not running'
        )


def _ports(texts: list[str]) -> tuple[int, ...]:
    """The ports that a client without SPDY names in the query."""
    words = [word for text in texts for word in text.split(",") if word]
    if len(words) > MOST_PORTS:
        raise bad_request(f"at most {MOST_PORTS} ports can be forwarded at once")
    for word in words:
        if not (word.isascii() and word.isdigit() and 0 < int(word[:6]) < 1 << 16):
            raise bad_request(f"{word[:20]!r} is not a port")
    return tuple(int(word) for word in words)
