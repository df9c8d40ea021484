# SPDX-License-Identifier: Apache-2.0
"""Which users of the machine the pods of a namespace may choose with runAsUser. Pure.

A pod runs as the user of the token with which it was submitted. An admin lists further uids in the
annotation `kuota.dev/run-as-uids` of the namespace, such as `1005,1006`. Root cannot be listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .base import Json
from .faults import FieldError, forbidden, invalid
from .rules.report import child, integer, objects, string_map
from .rules.volumes import CONTAINERS, MAX_ID

RUN_AS_UIDS = "kuota.dev/run-as-uids"
_FORM = f"must list numbers between 1 and {MAX_ID}, such as 1005,1006"


def listed_uids(namespace: Json) -> frozenset[int]:
    """The uids that the namespace lists. Malformed entries allow nothing."""
    return frozenset(int(word) for word in _words(namespace) if _is_uid(word))


def annotation_faults(namespace: Json) -> Iterator[FieldError]:
    """Yield the faults of the annotation of a namespace."""
    for word in _words(namespace):
        if not _is_uid(word):
            yield invalid(f"metadata.annotations[{RUN_AS_UIDS}]", word, _FORM)


def run_as_user_faults(
    spec: Json, path: str, own: int | None, allowed: Collection[int]
) -> Iterator[FieldError]:
    """Yield a fault for each runAsUser in a pod spec that is neither `own` nor allowed."""
    places = [(path, spec)]
    for field in CONTAINERS:
        places += objects(spec.get(field), f"{path}.{field}")
    for place, part in places:
        asked = integer(child(part, "securityContext").get("runAsUser"))
        if asked is None or asked == own or asked in allowed:
            continue
        user = "your token has no user of this machine" if own is None else f"your user is {own}"
        yield forbidden(
            f"{place}.securityContext.runAsUser",
            f"user {asked} is not allowed: {user}, and an admin allows others with the "
            f"annotation {RUN_AS_UIDS} of the namespace",
        )


def _words(namespace: Json) -> list[str]:
    written = string_map(child(namespace, "metadata", "annotations")).get(RUN_AS_UIDS, "")
    return [word for part in written.split(",") if (word := part.strip())]


def _is_uid(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 10 and 0 < int(word) <= MAX_ID
