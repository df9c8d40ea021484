# SPDX-License-Identifier: Apache-2.0
"""Who views the dashboard, and what this viewer may read. Every answer has the API's permissions.

The machine and the cluster each implement `ViewerAccess`: one asks the roles of the embedded
server, the other sends reviews to the API server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from kuota.kube.access import AccessRequest as AccessRequest
from kuota.kube.access import UserInfo
from kuota.kube.client import Client
from kuota.kube.resources import Resource

ADMINS = "system:masters"
ISSUER = "kuota.dev/issuer"
"""Names in `UserInfo.extra` the user who created the token of a service account."""
PROXIED_S = 900.0
"""How long a response to a user whom a proxy named may take. Browsers then ask the proxy again."""
_AT_ONCE = 16
"""The number of questions that are sent to an API server at the same time."""


def flow_of(user: UserInfo) -> str:
    """Return the user to whom limits apply. Service accounts do not multiply them."""
    return next((values[0] for name, values in user.extra if name == ISSUER and values), user.name)


class BearerToken:
    """A token. It is kept in memory only, and its representation does not contain it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BearerToken) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return "BearerToken(…)"


class UnixPeer(msgspec.Struct, frozen=True):
    """A user of the machine, whom the Unix socket identified."""

    uid: int


class ProxiedUser(msgspec.Struct, frozen=True):
    """A user whom a trusted authenticating proxy named.

    The proxy vouches for the request in which it named the user. Nothing tells whether the user is
    still signed in there, so what a request began ends after `PROXIED_S`.
    """

    user: UserInfo


Credential = BearerToken | UnixPeer | ProxiedUser
"""What proves who somebody is. It is checked again at every use, so that a revocation counts."""


class ViewerAccess(Protocol):
    """Authentication and authorization by the API server whose objects the dashboard shows."""

    async def user(self, credential: Credential) -> UserInfo | None:
        """Return the user; None if the credential is not valid any more."""

    async def allows(self, user: UserInfo, request: AccessRequest) -> bool:
        """Whether the user may do this. Without a namespace: in all namespaces."""

    def client(self, credential: Credential) -> AbstractAsyncContextManager[Client]:
        """Return a client with the permissions of the user. Raises Forbidden if there is none."""


def lasting_s(credential: Credential) -> float:
    """Return how long a response may be sent; infinite if the credential can be checked again."""
    return PROXIED_S if isinstance(credential, ProxiedUser) else math.inf


def requesting(resource: Resource, namespace: str = "", verb: str = "list") -> AccessRequest:
    """Return the access of listing objects of one namespace, or of all, or of another verb."""
    return AccessRequest(
        verb=verb,
        group=resource.group,
        version=resource.version,
        resource=resource.plural,
        namespace=namespace,
    )


async def permitted_namespaces(
    access: ViewerAccess,
    user: UserInfo,
    resource: Resource,
    namespaces: Iterable[str],
    verb: str = "list",
) -> frozenset[str] | None:
    """Return those namespaces whose objects the user may list; None if all of them, also new ones.

    A user with access to all namespaces is asked about once. `verb` is another one than listing.
    """
    if ADMINS in user.groups or await access.allows(user, requesting(resource, verb=verb)):
        return None
    turns = asyncio.Semaphore(_AT_ONCE)

    async def permitted(namespace: str) -> bool:
        async with turns:
            return await access.allows(user, requesting(resource, namespace, verb))

    names = list(namespaces)
    found = await asyncio.gather(*map(permitted, names))
    return frozenset(name for name, may in zip(names, found, strict=True) if may)
