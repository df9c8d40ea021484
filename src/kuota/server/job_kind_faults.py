# SPDX-License-Identifier: Apache-2.0
"""Validates the job kinds that this server defines: pod templates, names, and changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial

from kuota.api import names
from kuota.api.base import Json
from kuota.api.faults import FieldError, duplicate, introduced, invalid

from .columns import dig, listed, mapped
from .job_kinds import BY_RESOURCE, MOST_REPLICAS, JobKindDefinition, at_path
from .kinds import Kind
from .native_defaults import fill_spec
from .pod_faults import template_faults

_RESTART = ("Always", "OnFailure", "Never")
_SUSPEND = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))
_JOB_SETS = "jobsets.jobset.x-k8s.io"


def job_kind_faults(kind: Kind, obj: Json, old: Json | None) -> Iterator[FieldError]:
    """Yield the faults of an object that matches the schema of its kind."""
    definition = BY_RESOURCE[kind.resource]
    changed = old is None or obj.get("spec") != old.get("spec")
    if changed:
        yield from introduced(partial(_template_faults, definition), obj, old)
    # A definition without a status is no job but a template for later ones.
    runs = definition.status and not (old is None or _suspended(old) or _suspended(obj))
    if old is not None and changed and runs:
        yield from _immutable_faults(definition, obj, old)
    if kind.resource == _JOB_SETS and changed:
        yield from introduced(_job_set_faults, obj, old)


def _template_faults(definition: JobKindDefinition, obj: Json) -> Iterator[FieldError]:
    for path in definition.templates:
        for place, template in at_path(obj, path):
            filled = copy.deepcopy(template)
            fill_spec(filled.setdefault("spec", {}))
            yield from template_faults(filled, place, _RESTART)


def _suspended(obj: Json) -> bool:
    return any(dig(obj, *path) is True for path in _SUSPEND)


def _immutable_faults(definition: JobKindDefinition, obj: Json, old: Json) -> Iterator[FieldError]:
    """Reject a change of the pods of a job that runs: processes keep what they started with."""
    for path in definition.templates:
        before, after = (dict(at_path(each, path)) for each in (old, obj))
        for place in after:
            if before.get(place) != after[place]:
                message = "field is immutable while the job is not suspended"
                yield invalid(place, None, message, "suspend the job first, or create a new one")


def _job_set_faults(job_set: Json) -> Iterator[FieldError]:
    path, total = "spec.replicatedJobs", 0
    seen: set[str] = set()
    for at, each in enumerate(listed(dig(job_set, "spec", "replicatedJobs"))):
        name, given = str(each.get("name")), each.get("replicas")
        replicas = 1 if given is None else given
        total += replicas
        if name in seen:
            yield duplicate(f"{path}[{at}].name", name, "names must be unique")
        seen.add(name)
        longest = f"{dig(job_set, 'metadata', 'name')}-{name}-{max(0, replicas - 1)}"
        for fault in names.dns_label(longest):
            yield invalid(f"{path}[{at}].name", name, f"the Job name {longest!r} {fault}")
    if total > MOST_REPLICAS:
        yield invalid(path, total, f"a JobSet has at most {MOST_REPLICAS} Jobs on this server")
    known = {"All", "Any", None}
    if mapped(dig(job_set, "spec", "successPolicy")).get("operator") not in known:
        operator = dig(job_set, "spec", "successPolicy", "operator")
        yield invalid("spec.successPolicy.operator", operator, "must be All or Any")
