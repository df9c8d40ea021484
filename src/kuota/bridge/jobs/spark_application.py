# SPDX-License-Identifier: Apache-2.0
"""The SparkApplication of the Spark operator: a driver and its executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS, SPARK
from kuota.api.faults import FieldError, invalid
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, integer, mapping, text

from .fields import put
from .kind import End
from .spark_pod import DRIVER, EXECUTOR, bare_template, node_selector, pod_template
from .template_kind import Template, TemplateKind, merged_template, restored_template

_MOVED = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
)
"""The fields of a pod template that a SparkApplication has in the description of a role."""
_GATES = ("template", "spec", "schedulingGates")


class SparkApplication(TemplateKind):
    """A SparkApplication. It has no pod templates: `path` is the description of a role."""

    framework = SPARK
    described_pod_sets = "`driver`, `executor`"
    gvk = FRAMEWORKS[SPARK]
    validates_unmanaged = False

    def templates(self, job: Json) -> Sequence[Template]:
        instances = integer(child(job, "spec", EXECUTOR).get("instances")) or 0
        return [
            Template(name=role, count=count, path=("spec", role), field=f"spec.{role}")
            for role, count in ((DRIVER, 1), (EXECUTOR, instances))
        ]

    def pod_template(self, job: Json, template: Template) -> Json:
        return pod_template(job, template.name)

    def started(self, job: Json, given: Sequence[Injection], gates: Gates) -> Json:
        return _without_selector(super().started(job, given, gates))

    def injected(self, job: Json, slot: Template, added: Injection, *, elastic: bool) -> Json:
        """Inject into the description of a role. It also takes over the selector of all roles.

        Its own labels take precedence over those, as in the pod set that was admitted.
        """
        own = _as_template(child(job, "spec", slot.name))
        selector = node_selector(job, slot.name)
        if selector:
            own = put(own, ("spec", "nodeSelector"), selector)
        return _described(job, slot.name, merged_template(own, added, elastic=elastic))

    def restored(self, job: Json, pod_sets: Sequence[Json] | None) -> Json:
        if pod_sets is None or len(pod_sets) != len(self.templates(job)):
            return job
        return _without_selector(super().restored(job, pod_sets))

    def template_restored(self, job: Json, slot: Template, pod_set: Json) -> Json:
        own = _as_template(child(job, "spec", slot.name))
        job = _described(job, slot.name, restored_template(own, mapping(pod_set.get("template"))))
        if slot.name == DRIVER:
            return job
        return put(job, ("spec", EXECUTOR, "instances"), integer(pod_set.get("count")) or 0)

    def end(self, job: Json) -> End | None:
        state = _state(job)
        if state not in ("COMPLETED", "FAILED", "SUBMISSION_FAILED"):
            return None
        message = text(child(job, "status", "applicationState").get("errorMessage"))
        return End(success=state == "COMPLETED", message=message)

    def active(self, job: Json) -> bool:
        return _state(job) in ("RUNNING", "SUSPENDING")

    def pods_ready(self, job: Json) -> bool:
        """Whether the driver runs, and as many executors as were requested."""
        wanted = integer(child(job, "spec", EXECUTOR).get("instances")) or 0
        states = child(job, "status", "executorState").values()
        ready = sum(each in ("RUNNING", "COMPLETED") for each in states)
        return _state(job) == "RUNNING" and ready >= wanted

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterator[FieldError]:
        spec = child(job, "spec")
        if managed and spec.get("mode") != "cluster":
            fix = "set it to cluster, so that the driver runs in a pod"
            yield invalid("spec.mode", spec.get("mode"), "cannot be queued in this mode", fix)
        dynamic = child(spec, "dynamicAllocation").get("enabled") is True
        if managed and dynamic and not elastic(job, gates):
            message = "the number of executors must be fixed, because their quota is"
            yield invalid("spec.dynamicAllocation.enabled", True, message, "disable it")
        yield from self.topology_faults(job, gates)


def _state(job: Json) -> str:
    return text(child(job, "status", "applicationState").get("state"))


def _as_template(own: Json) -> Json:
    """Return the description of a role as a pod template, as far as an admission changes it."""
    template: Json = {}
    for section, field in _MOVED:
        template = put(template, (section, field), own.get(field))
    gates = child(own, "template", "spec").get("schedulingGates")
    return put(template, ("spec", "schedulingGates"), gates)


def _described(job: Json, role: str, template: Json) -> Json:
    """Return the application with the description of a role as in the pod template."""
    own = child(job, "spec", role)
    if not isinstance(own.get("template"), dict):
        own = own | {"template": bare_template(role)}
    for section, field in _MOVED:
        own = _set(own, (field,), child(template, section).get(field))
    gates = child(template, "spec").get("schedulingGates")
    return put(job, ("spec", role), _set(own, _GATES, gates))


def _set(own: Json, path: tuple[str, ...], value: object) -> Json:
    """Set a field, or remove it if it is empty."""
    *parents, field = path
    inside = {name: each for name, each in child(own, *parents).items() if name != field}
    changed = inside | ({field: value} if value else {})
    return put(own, parents, changed) if parents else changed


def _without_selector(job: Json) -> Json:
    """Remove the selector of all roles; the operator rejects even an empty one beside others."""
    spec = child(job, "spec")
    if "nodeSelector" not in spec:
        return job
    return put(job, ("spec",), {k: v for k, v in spec.items() if k != "nodeSelector"})
