# SPDX-License-Identifier: Apache-2.0
"""The connection of one command to an API server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.config import Connection
from kuota.kube.errors import Gone, Unreachable
from kuota.kube.http_client import HttpTransport
from kuota.kube.requests import HttpRequest, fetching
from kuota.kube.resources import Resource
from kuota.kube.retry import RetryingSender

from .connect import MANAGER


class Session:
    """A client, the selected namespace, and requests that return warnings."""

    def __init__(self, transport: HttpTransport, namespace: str, version: str) -> None:
        self.client = Client(transport, manager=MANAGER)
        self.namespace = namespace
        self.here = ""
        """The options that select the same namespace in another command, if any are needed."""
        self.by_uid = False
        """Whether the server identifies the user by uid, without a kubeconfig."""
        self.embedded = "+kuota" in version
        """Whether the server is `kuota up`, which runs pods as processes of its machine."""
        self._sender = RetryingSender(transport, SystemClock(), None, None)

    def key(self, resource: Resource, name: str) -> Key:
        """Return the key of the object with this name in the selected namespace."""
        return Key(self.namespace if resource.namespaced else "", name)

    async def answer(self, request: HttpRequest) -> tuple[Json, list[str]]:
        """The object in the server's response, and the warnings."""
        response = await self._sender.send(request)
        try:
            found: Any = msgspec.json.decode(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreachable(f"the response to {request} is not JSON: {error}") from None
        return found, warnings_in(response.headers.get("warning", ""))


@asynccontextmanager
async def opened(connection: Connection, namespace: str = "") -> AsyncIterator[Session]:
    """A session with a server; raises Unreachable at once if it does not answer.

    A user of the Unix socket has no kubeconfig that selects a namespace. The default is therefore
    the namespace of the user's teams, if there is exactly one.
    """
    # Commands report failures of watches in their own words.
    logging.getLogger("kuota").addHandler(logging.NullHandler())
    transport = HttpTransport(connection)
    try:
        version = await transport.send(fetching("/version"))
        session = Session(
            transport, namespace or connection.namespace, version.body.decode(errors="replace")
        )
        session.here = f"-n {namespace} " if namespace else ""
        session.by_uid = connection.server.startswith("unix:")
        if session.by_uid and not namespace:
            from .own_namespaces import own_namespaces

            own = await own_namespaces(session)
            session.namespace = own[0] if len(own) == 1 else session.namespace
        yield session
    finally:
        await transport.close()


def warnings_in(header: str) -> list[str]:
    """The texts in a Warning header: `299 - "text", 299 - "text"`."""
    texts: list[str] = []
    rest = header
    while '"' in rest:
        text, rest = _quoted(rest.partition('"')[2])
        texts.append(text)
    return texts


def _quoted(words: str) -> tuple[str, str]:
    """Split into the text before the closing quote and the rest."""
    text = ""
    characters = iter(enumerate(words))
    for at, character in characters:
        if character == "\\":
            text += next(characters, (at, ""))[1]
        elif character == '"':
            return text, words[at + 1 :]
        else:
            text += character
    return text, ""


async def until(
    client: Client, resource: Resource, key: Key, done: Callable[[Json | None], bool]
) -> Json | None:
    """Wait until `done` holds, and return the object. None represents a missing object."""
    where, only = key.namespace or None, f"metadata.name={key.name}"
    while True:
        listed = await client.list(resource, where, field_selector=only)
        obj = listed.items[0] if listed.items else None
        if done(obj):
            return obj
        changes = client.watch(resource, where, since=listed.revision, field_selector=only)
        try:
            async with aclosing(changes) as events:
                async for event in events:
                    obj = None if event.type == "DELETED" else event.object
                    if done(obj):
                        return obj
        except Gone:
            continue
