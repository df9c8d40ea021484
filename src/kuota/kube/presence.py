# SPDX-License-Identifier: Apache-2.0
"""Whether a server has a kind at all, as it tells everybody who may ask anything."""

from __future__ import annotations

from .client import Client
from .errors import KubeError, NotFound
from .resources import Resource


async def served(client: Client, resource: Resource) -> bool:
    """Whether the server has the kind in that version. True when it does not say."""
    root = "/apis" if resource.group else "/api"
    try:
        found = await client.fetch(f"{root}/{resource.api_version}")
    except NotFound:
        return False
    except KubeError:
        return True
    listed = found.get("resources") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return True
    return any(isinstance(each, dict) and each.get("name") == resource.plural for each in listed)
