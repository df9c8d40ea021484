# SPDX-License-Identifier: Apache-2.0
"""The AppWrapper: any objects, created together once they have quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.api.rules.report import child, elements, mapping, text

from .app_wrapper_components import component_templates
from .fields import at, put
from .job_conditions import true_condition
from .kind import End
from .template_kind import Template, TemplateKind

_INFO = "podSetInfos"


class AppWrapper(TemplateKind):
    """An AppWrapper. Its controller adds admissions to the wrapped objects when it creates them."""

    framework = "workload.codeflare.dev/appwrapper"
    ranked = True
    prebuilt = True
    described_pod_sets = "one for each declared pod set of a component"
    gvk = FRAMEWORKS[framework]
    managed_by = ("spec", "managedBy")
    native_manager = "workload.codeflare.dev/appwrapper-controller"

    def templates(self, job: Json) -> Sequence[Template]:
        name = text(child(job, "metadata").get("name"))
        slots = [
            msgspec.structs.replace(each, path=("spec", "components", number, *each.path))
            for number, component in enumerate(_components(job))
            for each in component_templates(component)
        ]
        valid = [each for each in slots if isinstance(at(job, (*each.path, "spec")), dict)]
        return [
            msgspec.structs.replace(each, name=f"{name}-{index}".lower())
            for index, each in enumerate(valid)
        ]

    def pod_template(self, job: Json, template: Template) -> Json:
        """Return the pod template. Of a wrapped Pod, only what a template has remains."""
        found = super().pod_template(job, template)
        metadata = mapping(found.get("metadata"))
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        return {"metadata": kept, "spec": mapping(found.get("spec"))}

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        """Append the admission of a pod set to its component."""
        path = (*slot.path[:3], _INFO)
        given = msgspec.to_builtins(added)
        fields = ("annotations", "labels", "nodeSelector", "tolerations", "schedulingGates")
        kept = {field: given[field] for field in fields if given.get(field)}
        return put(job, path, [*elements(at(job, path)), kept])

    def started(self, job: Json, given: Sequence[Injection], gates: Gates) -> Json:
        return super().started(_cleared(job), given, gates)

    def restored(self, job: Json, pod_sets: Sequence[Json] | None) -> Json:
        return _cleared(job)

    def end(self, job: Json) -> End | None:
        phase = child(job, "status").get("phase")
        if phase == "Succeeded":
            return End(success=True, message="AppWrapper finished successfully")
        if phase == "Failed" and true_condition(job, "ResourcesDeployed") is None:
            return End(success=False, message="AppWrapper failed")
        return None

    def active(self, job: Json) -> bool:
        return true_condition(job, "QuotaReserved") is not None

    def pods_ready(self, job: Json) -> bool:
        return true_condition(job, "PodsReady") is not None

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        """Return none: the webhook of the AppWrapper controller validates the components."""
        return ()


def _components(job: Json) -> list[Json]:
    return [mapping(each) for each in elements(child(job, "spec").get("components"))]


def _cleared(job: Json) -> Json:
    """Return the AppWrapper without admissions."""
    listed = elements(child(job, "spec").get("components"))
    if not any(_INFO in mapping(each) for each in listed):
        return job
    cleared = [
        {field: value for field, value in each.items() if field != _INFO}
        if isinstance(each, dict)
        else each
        for each in listed
    ]
    return put(job, ("spec", "components"), cleared)
