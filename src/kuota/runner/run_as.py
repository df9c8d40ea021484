# SPDX-License-Identifier: Apache-2.0
"""Determines the user of a pod's processes. Pure.

The server writes the uid of the author into `kuota.dev/run-as-uid`, and only admins may change it.
A runner that is not root can only use its own user. A runner that is root switches to that uid, and
stays root only if the admin allowed it.
"""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.core import RUN_AS

from .container_env import LaunchError

_FAULT = "CreateContainerConfigError"


class RunAsPolicy(msgspec.Struct, frozen=True):
    """The policy of the runner. `uid` is its own; `fallback_uid` is for pods that name no user."""

    uid: int
    allow_root: bool = False
    fallback_uid: int | None = None


class RunAs(msgspec.Struct, frozen=True):
    """The uid to switch to, None for no switch, and a note for the status of the pod."""

    uid: int | None = None
    note: str = ""


def run_as(pod: Json, container: Json, policy: RunAsPolicy) -> RunAs:
    """The user of one container. Raises LaunchError if no user is allowed."""
    asked = _security(pod, container, "runAsUser")
    if policy.uid != 0:
        return RunAs(None, _differs(asked, policy.uid))
    uid = _named(pod)
    if uid is None:
        uid = policy.fallback_uid
    if uid is None and not policy.allow_root:
        raise LaunchError(
            _FAULT,
            f"the pod names no user in {RUN_AS}, and running it as root is not allowed; "
            "start `kuota up` with --run-as USER",
            permanent=True,
        )
    if uid in (None, 0) and policy.allow_root and isinstance(asked, int):
        uid = asked  # An admin may choose any user.
    uid = uid or 0
    if uid == 0 and not policy.allow_root:
        raise LaunchError(_FAULT, "the pod would run as root, which is not allowed", permanent=True)
    if uid == 0 and _security(pod, container, "runAsNonRoot"):
        raise LaunchError(_FAULT, "the pod has runAsNonRoot and would run as root", permanent=True)
    return RunAs(uid, _differs(asked, uid))


def _named(pod: Json) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(RUN_AS)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise LaunchError(_FAULT, f"{RUN_AS} is {text!r}, not a number", permanent=True)
    return int(text)


def _security(pod: Json, container: Json, name: str) -> object:
    """The value of the container, otherwise of the pod, otherwise None."""
    for place in (container, pod.get("spec") or {}):
        value: object = (place.get("securityContext") or {}).get(name)
        if value is not None:
            return value
    return None


def _differs(asked: object, uid: int) -> str:
    if asked is None or asked == uid:
        return ""
    return f"runs as user {uid}; runAsUser {asked} is ignored"
