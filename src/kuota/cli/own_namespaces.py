# SPDX-License-Identifier: Apache-2.0
"""The namespaces in which the user may work, for messages about forbidden requests."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.kube.errors import ApiError, Forbidden
from kuota.kube.resources import NAMESPACES, Resource
from kuota.server.auth import TEAM
from kuota.view.words import several

from .connect import is_denied, rejection

if TYPE_CHECKING:
    from .session import Session

_WHO_AM_I = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


async def refusal(session: Session, error: ApiError) -> str:
    """Return the message for a request that the server refused."""
    return await forbidden(session, error) if isinstance(error, Forbidden) else rejection(error)


async def forbidden(session: Session, error: Forbidden) -> str:
    """Return the message for a forbidden request, with the namespaces of the user's teams."""
    found = await own_namespaces(session) if session.embedded and is_denied(error) else []
    if session.namespace in found:
        return f"{error.message}\nMembers of a team may not do this. Ask an admin."
    if not found or "in the namespace" not in error.message:
        return rejection(error)
    words = f"You can work in {several(found)}: say -n {found[0]}"
    other = "" if session.by_uid else ", or set it in your kubeconfig"
    return f"{error.message}\n{words}{other}."


async def own_namespaces(session: Session) -> list[str]:
    """Return the namespaces of the user's teams on `kuota up`; empty if they cannot be read."""
    try:
        review = await session.client.create(_WHO_AM_I, {})
        groups = review["status"]["userInfo"].get("groups") or ()
        listed = await session.client.list(NAMESPACES)
    except ApiError:
        return []
    return team_namespaces(listed.items, groups)


def team_namespaces(namespaces: Iterable[Json], teams: Container[str]) -> list[str]:
    """Return the names of those namespaces that belong to one of the teams."""
    return sorted(
        str(each["metadata"]["name"])
        for each in namespaces
        if (each["metadata"].get("labels") or {}).get(TEAM) in teams
    )
