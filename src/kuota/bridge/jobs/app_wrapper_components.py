# SPDX-License-Identifier: Apache-2.0
"""The pod sets of a component of an AppWrapper: declared, or inferred from what it wraps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kuota.api.base import Json
from kuota.api.rules.job import pod_count
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text, whole

from .fields import Path
from .job_set import JobSet
from .mpi_job import MPIJob
from .template_kind import Template, TemplateKind
from .training_jobs import JAXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob

_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,6})\]")
_TAS = "workload.codeflare.dev.appwrapper/tas-"
_LABELS = {
    "podIndexLabel": f"{_TAS}pod-index-label",
    "subGroupIndexLabel": f"{_TAS}sub-group-index-label",
}
_JOB_RANKS = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
_POD_TEMPLATE = ("template", "spec", "template")
_TEMPLATE_KINDS: dict[tuple[str, str], TemplateKind] = {
    (kind.api_version, kind.gvk.kind): kind
    for kind in (JobSet(), PyTorchJob(), TFJob(), XGBoostJob(), PaddleJob(), JAXJob(), MPIJob())
}
_RAY_CLUSTERS = {"RayCluster": ("spec",), "RayJob": ("spec", "rayClusterSpec")}


def component_templates(component: Json) -> Sequence[Template]:
    """Return the pod sets of a component, without names. Paths begin at the component."""
    declared = list(map(mapping, elements(component.get("podSets"))))
    return list(_declared(declared) if declared else _inferred(child(component, "template")))


def _declared(pod_sets: Sequence[Json]) -> Iterator[Template]:
    for each in pod_sets:
        annotations = string_map(each.get("annotations"))
        ranks: Json = {
            field: annotations[key] for field, key in _LABELS.items() if key in annotations
        }
        groups = whole(annotations.get(f"{_TAS}sub-group-count", ""))
        yield Template(
            name="",
            count=_count(each.get("replicas")),
            path=_path(text(each.get("path"))),
            ranks=ranks | ({"subGroupCount": groups} if groups is not None else {}) or None,
        )


def _path(written: str) -> Path:
    """Parse a path such as `template.spec.jobs[0].template`. An invalid one leads nowhere."""
    root, rest = written[: len("template")], written[len("template") :]
    steps = list(_STEP.finditer(rest))
    if root != "template" or "".join(each[0] for each in steps) != rest:
        return ("",)
    return (root, *(each[1] or int(each[2]) for each in steps))


def _inferred(wrapped: Json) -> Iterator[Template]:
    version, kind = text(wrapped.get("apiVersion")), text(wrapped.get("kind"))
    known = _TEMPLATE_KINDS.get((version, kind))
    if known is not None:
        for each in known.templates(wrapped):
            inside: Path = ("template", *each.path)
            yield Template(name="", count=each.count, path=inside, ranks=each.ranks)
    elif (version, kind) == ("batch/v1", "Job"):
        count = pod_count(wrapped)
        yield Template(name="", count=count, path=_POD_TEMPLATE, ranks=_JOB_RANKS)
    elif version == "apps/v1" and kind in ("Deployment", "StatefulSet"):
        count = _count(child(wrapped, "spec").get("replicas"))
        yield Template(name="", count=count, path=_POD_TEMPLATE)
    elif version == "ray.io/v1" and kind in _RAY_CLUSTERS:
        yield from _ray_cluster(wrapped, _RAY_CLUSTERS[kind])
    elif (version, kind) == ("v1", "Pod"):
        yield Template(name="", count=1, path=("template",))


def _ray_cluster(wrapped: Json, at: tuple[str, ...]) -> Iterator[Template]:
    yield Template(name="", count=1, path=("template", *at, "headGroupSpec", "template"))
    for index, each in enumerate(elements(child(wrapped, *at).get("workerGroupSpecs"))):
        group = mapping(each)
        count = _count(group.get("replicas")) * _count(group.get("numOfHosts"))
        path: Path = ("template", *at, "workerGroupSpecs", index, "template")
        yield Template(name="", count=count, path=path)


def _count(value: object) -> int:
    found = integer(value)
    return 1 if found is None else found
