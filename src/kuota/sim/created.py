# SPDX-License-Identifier: Apache-2.0
"""Objects that an API server and its controllers would create from the manifests of a plan.

The API server completes generated names, and a CronJob creates Jobs. One of them is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from kuota.api.base import Json
from kuota.api.rules.references import name_of, namespace_of
from kuota.api.rules.report import child, elements, mapping, text

_CRON_JOB = ("batch/v1", "CronJob")
_Place = tuple[str, str, str]


def completed(objects: Sequence[Json]) -> tuple[list[Json], list[str]]:
    """Return the objects in the same order, and notes about them.

    A CronJob is replaced by a Job, or by an empty object if it creates none.
    """
    notes: list[str] = []
    owned = {each for obj in objects for each in _owning_cron_jobs(obj)}
    return _named([_created(each, owned, notes) for each in objects]), notes


def _created(obj: Json, owned: set[_Place], notes: list[str]) -> Json:
    if (obj.get("apiVersion"), obj.get("kind")) != _CRON_JOB:
        return obj
    name, place = f"CronJob {namespace_of(obj)}/{name_of(obj)}", _place(obj)
    if place in owned:
        return {}
    if child(obj, "spec").get("suspend") is True:
        notes.append(f"{name} is suspended and creates no Jobs.")
        return {}
    template = child(obj, "spec", "jobTemplate")
    if not child(template, "spec"):
        return {}
    notes.append(f"{name} creates Jobs when its schedule is due; one of them is planned.")
    metadata: Json = {"generateName": f"{name_of(obj)}-", "namespace": namespace_of(obj)}
    metadata |= {key: child(template, "metadata", key) for key in ("labels", "annotations")}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _owning_cron_jobs(obj: Json) -> Iterator[_Place]:
    for owner in map(mapping, elements(child(obj, "metadata").get("ownerReferences"))):
        if owner.get("kind") == "CronJob":
            yield "CronJob", namespace_of(obj), text(owner.get("name"))


def _named(objects: Sequence[Json]) -> list[Json]:
    """Return the objects with a number appended to each generated name."""
    taken = {_place(each) for each in objects}
    return [each if name_of(each) else _numbered(each, taken) for each in objects]


def _numbered(obj: Json, taken: set[_Place]) -> Json:
    metadata = child(obj, "metadata")
    prefix = text(metadata.get("generateName"))
    if not prefix:
        return obj
    for number in count(1):
        named = obj | {"metadata": metadata | {"name": f"{prefix}{number}"}}
        if _place(named) not in taken:
            taken.add(_place(named))
            return named
    raise AssertionError("count is infinite")


def _place(obj: Json) -> _Place:
    return text(obj.get("kind")), namespace_of(obj), name_of(obj)
