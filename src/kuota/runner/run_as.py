# SPDX-License-Identifier: Apache-2.0
"""Determines the user of a pod's processes. Pure.

The server writes the uid of the author into `kuota.dev/run-as-uid`, and only admins may change it.
A runner that is not root can only use its own user. A runner that is root switches to that uid, or
to the `runAsUser` of the pod if its author may choose it. Only pods that an admin submitted can run
as root, and only if the runner was started with permission for it.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kuota.api.base import Json
from kuota.api.core import RUN_AS, is_trusted
from kuota.api.rules.volumes import MAX_ID
from kuota.api.run_as_users import RUN_AS_UIDS

from .container_env import CONFIG_ERROR, LaunchError

_IGNORED = ("runAsGroup", "fsGroup", "supplementalGroups")


class RunAsPolicy(msgspec.Struct, frozen=True):
    """The policy of the runner. `uid` is its own; `fallback_uid` is for pods that name no user."""

    uid: int
    allow_root: bool = False
    fallback_uid: int | None = None


class RunAs(msgspec.Struct, frozen=True):
    """The uid to switch to, None for no switch, and a note for the status of the pod."""

    uid: int | None = None
    note: str = ""


def run_as(pod: Json, container: Json, policy: RunAsPolicy, allowed: Collection[int] = ()) -> RunAs:
    """The user of one container. Raises LaunchError if no user is allowed.

    `allowed` are the users that an admin allows in the namespace.
    """
    asked = _security(pod, container, "runAsUser")
    if policy.uid != 0:
        return RunAs(None, _note(pod, container, asked, policy.uid))
    uid = named_uid(pod)
    if uid is None:
        uid = policy.fallback_uid
    if isinstance(asked, int) and asked != uid:
        if not is_trusted(pod) and asked not in allowed:
            raise _refused(
                f"runAsUser {asked} is not the user of the pod, and {RUN_AS_UIDS} of its "
                "namespace does not list it"
            )
        uid = asked
    if uid is None:
        raise _refused(f"the pod names no user in {RUN_AS}; start `kuota up` with --run-as USER")
    if uid == 0:
        _check_root(pod, container, policy)
    return RunAs(uid, _note(pod, container, asked, uid))


def _check_root(pod: Json, container: Json, policy: RunAsPolicy) -> None:
    if not policy.allow_root:
        raise _refused("the pod would run as root, which is not allowed")
    if not is_trusted(pod):
        raise _refused("the pod would run as root, which only pods of admins may do")
    if _security(pod, container, "runAsNonRoot"):
        raise _refused("the pod has runAsNonRoot and would run as root")


def named_uid(pod: Json) -> int | None:
    """The uid of the author, as the server recorded it. Raises LaunchError if it is malformed."""
    text = (pod["metadata"].get("annotations") or {}).get(RUN_AS)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_ID):
        raise _refused(f"{RUN_AS} is {text!r}, not a uid")
    return int(text)


def _refused(message: str) -> LaunchError:
    return LaunchError(CONFIG_ERROR, message, permanent=True)


def _security(pod: Json, container: Json, name: str) -> object:
    """The value of the container, otherwise of the pod, otherwise None."""
    for place in (container, pod.get("spec") or {}):
        value: object = (place.get("securityContext") or {}).get(name)
        if value is not None:
            return value
    return None


def _note(pod: Json, container: Json, asked: object, uid: int) -> str:
    ignored = [name for name in _IGNORED if _security(pod, container, name) is not None]
    if asked is not None and asked != uid:
        ignored.insert(0, f"runAsUser {asked}")
    if not ignored:
        return ""
    verb = "is" if len(ignored) == 1 else "are"
    return f"runs as user {uid}; {', '.join(ignored)} {verb} ignored"
