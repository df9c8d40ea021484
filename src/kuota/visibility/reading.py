# SPDX-License-Identifier: Apache-2.0
"""Reads the explanation of a workload from a server, for those who show it."""

from __future__ import annotations

import msgspec

from kuota.api.base import Key
from kuota.kube.access import AccessRequest
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, Forbidden, NotFound
from kuota.view.plan import WhyRow

from .explanation import GROUP, RESOURCE, SUBRESOURCE, VERSION, explanation_path


async def read_explanation(client: Client, key: Key) -> tuple[WhyRow | None, str]:
    """Return the scheduler's explanation of the workload, or None and a note why there is none."""
    try:
        answer = await client.fetch(explanation_path(key))
        return msgspec.convert(answer.get("why"), WhyRow | None), ""
    except msgspec.ValidationError:
        return None, _note("its format is not known to this version of kuota")
    except Forbidden:
        return None, forbidden_note()
    except NotFound as error:
        # Only the error for a missing object has details.
        unknown = error.details.get("group") == GROUP
        return None, _note(
            "the controller does not know this workload yet"
            if unknown
            else f"this cluster does not serve {GROUP}"
        )
    except ApiError as error:
        return None, _note(error.message)


def explanation_access(key: Key) -> AccessRequest:
    """Return the access that reading the explanation of this workload requires."""
    return AccessRequest(
        verb="get",
        group=GROUP,
        version=VERSION,
        resource=RESOURCE,
        subresource=SUBRESOURCE,
        namespace=key.namespace,
        name=key.name,
    )


def forbidden_note() -> str:
    """Return the note for those who may not read the explanation."""
    return _note(f"you may not get {RESOURCE}/{SUBRESOURCE} of {GROUP} in this namespace")


def _note(cause: str) -> str:
    return f"there is no explanation by the scheduler ({cause}); this is what the conditions say"
