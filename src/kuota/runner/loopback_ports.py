# SPDX-License-Identifier: Apache-2.0
"""Chooses the port at which the processes of one job meet. Pure.

On a cluster every pod has an address of its own, so all jobs may use the same port. Here they share
one address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from kuota.api.base import Json
from kuota.api.rules.report import child, string_map, text

PORT = "kuota.dev/port"
"""An annotation of Jobs: the port of the job that they belong to."""

FIRST, LAST = 10_000, 32_767
"""Below the range from which Linux chooses the ports of outgoing connections."""


Taken = Callable[[int], bool]
"""Whether another job uses a port."""


def loopback_port(job: Json, jobs: Iterable[Json], taken: Taken) -> int:
    """The port of a job: that of its Jobs, otherwise one that no other job uses."""
    known = (port_of(each) for each in jobs)
    found = next((each for each in known if each is not None), None)
    if found is not None:
        return found
    uid, size = text(child(job, "metadata").get("uid")), LAST - FIRST + 1
    start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % size
    ports = (FIRST + (start + step) % size for step in range(size))
    return next((port for port in ports if not taken(port)), FIRST + start)


def port_of(job: Json) -> int | None:
    """The port in the annotation of a Job."""
    found = string_map(child(job, "metadata").get("annotations")).get(PORT, "")
    return int(found) if found.isdecimal() and len(found) < 6 else None
