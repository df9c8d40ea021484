# SPDX-License-Identifier: Apache-2.0
"""Describes how far processes are separated and limited on this machine."""

from __future__ import annotations

from kuota.runner.cgroups import Cgroups
from kuota.runner.confine import LANDLOCK, NAMESPACES

USERS, NONE = "users", "none"

_WORDS = {
    NAMESPACES: (
        "Pods of members are confined by user and mount namespaces: they do not see the state "
        "directory, the home directory and the temporary files of that user."
    ),
    LANDLOCK: (
        "Pods of members are confined by Landlock: they cannot access the state directory, the "
        "home directory and /tmp, but they can connect to the Unix sockets of that user."
    ),
    NONE: (
        "This kernel offers no isolation to it, so a member's process can read the admin token "
        "and everything else of that user."
    ),
}
_LIMIT = (
    "The control plane does not run as root, so all pods run as the same user, and teams "
    "are not isolated from each other."
)
_REMEDY = "To give each member's pods a user of their own, run the control plane as root."


def separation(run_as: int | None, isolation: str) -> str:
    """What separates members: `users`, `namespaces`, `landlock` or `none`.

    `run_as` is None unless the control plane runs as root.
    """
    return USERS if run_as is not None else isolation or NONE


def warnings(separation: str) -> list[str]:
    """Sentences about the limits of the separation; none if pods have users of their own."""
    return [] if separation == USERS else [_LIMIT, _WORDS[separation], _REMEDY]


def limits(cgroups: Cgroups, pod_pids_limit: int) -> str:
    """Which limits of pods are not enforced as documented, and why; "" if all are."""
    if not cgroups.missing:
        return ""
    lacking = [each for each in cgroups.missing if each != "pids"]
    found = [f"Limits of {' and '.join(lacking)} are not enforced"] if lacking else []
    if "pids" in cgroups.missing:
        found.append(
            f"The limit of {pod_pids_limit} processes and threads applies to all pods of a Unix "
            "user together instead of each pod, and to no pod of root"
        )
    return f"{'. '.join(found)}. The reason: {cgroups.refusal}."
