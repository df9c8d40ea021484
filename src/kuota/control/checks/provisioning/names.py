# SPDX-License-Identifier: Apache-2.0
"""Names of ProvisioningRequests and PodTemplates, and the attempt that a request belongs to."""

from __future__ import annotations

import hashlib
import re

from kuota.api.base import Json
from kuota.api.rules.report import child, text, whole

ATTEMPT = "kuota.dev/provisioning-attempt"
"""The annotation of a request whose shortened name does not show its check and attempt."""

_CUT = 247
_HASH = 5


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_annotations(workload: str, check: str, attempt: int) -> dict[str, str]:
    """Return the annotations that a request of this attempt needs."""
    full = f"{workload}-{check}-{attempt}"
    return {} if _limited(full) == full else {ATTEMPT: f"{check}/{attempt}"}


def attempt_of(request: Json, workload: str, check: str) -> int | None:
    """Return the attempt of a request for this Workload and check; None if it is for another."""
    name = text(child(request, "metadata").get("name"))
    found = re.fullmatch(re.escape(f"{workload}-{check}-") + "([0-9]+)", name)
    if found is not None:
        return int(found[1])
    noted = text(child(request, "metadata", "annotations").get(ATTEMPT)).rpartition("/")
    attempt = whole(noted[2])
    if noted[0] != check or attempt is None or name != request_name(workload, check, attempt):
        return None
    return attempt


def _limited(name: str) -> str:
    """Return the name, cut and with a hash if it is too long for an object."""
    if len(name) <= _CUT:
        return name
    return f"{name[:_CUT]}-{hashlib.sha1(name.encode()).hexdigest()[:_HASH]}"
