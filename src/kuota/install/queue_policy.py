# SPDX-License-Identifier: Apache-2.0
"""A ValidatingAdmissionPolicy that rejects work without a queue in managed namespaces. Opt-in.

Kueue leaves objects without a queue name alone, so they run without quota, and so do objects of
kinds that are not enabled. The policy applies to what users create. Objects that a controller
creates for another object are exempt, but not the Jobs of a CronJob, and not objects whose owner a
user has invented: the exemption requires a service account of another namespace, or a component of
the control plane. Users may not name a job as the controller of an object at all, because the
object would run on the quota of that job.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.config.frameworks import BATCH_JOB, FRAMEWORKS
from kuota.api.config.load import load
from kuota.api.rules.job_common import QUEUE_NAME

from .settings import Settings, named, named_object

NAME = named("queue-name-required")
_API = "admissionregistration.k8s.io/v1"

_HAS_QUEUE = (
    f"has(LABELED.metadata) && has(LABELED.metadata.labels) && '{QUEUE_NAME}' in "
    f"LABELED.metadata.labels && LABELED.metadata.labels['{QUEUE_NAME}'] != ''"
)
_OTHERS = (
    ("batch", "v1", "cronjobs"),
    ("", "v1", "replicationcontrollers"),
    ("apps", "v1", "daemonsets"),
    ("apps", "v1", "replicasets"),
)
"""Kinds with pods that have no integration: group, version and resource."""
_JOB_OWNERS = sorted({*(each.kind for each in FRAMEWORKS.values()), "ReplicaSet"})
_VARIABLES = {
    "controlled": "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists("
    "o, has(o.controller) && o.controller && o.kind != 'CronJob')",
    "fromController": "request.userInfo.username == 'system:kube-controller-manager' || "
    "(request.userInfo.username.startsWith('system:serviceaccount:') && "
    "!request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))",
    "belowJob": "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists("
    f"o, has(o.controller) && o.controller && o.kind in {_JOB_OWNERS})",
    "sameOwners": "oldObject != null && (!has(object.metadata.ownerReferences) || "
    "(has(oldObject.metadata.ownerReferences) && object.metadata.ownerReferences.all("
    "o, oldObject.metadata.ownerReferences.exists(p, p.uid == o.uid && "
    "p.kind == o.kind && p.name == o.name && "
    "(has(p.controller) && p.controller) == (has(o.controller) && o.controller)))))",
    "queued": "request.resource.resource == 'cronjobs' ? ("
    + _HAS_QUEUE.replace("LABELED", "object.spec.jobTemplate")
    + ") : ("
    + _HAS_QUEUE.replace("LABELED", "object")
    + ")",
}
_CONDITIONS = {
    "not-an-admin": "!has(request.userInfo.groups) || "
    "!request.userInfo.groups.exists(g, g in ['system:masters', 'system:nodes'])",
}
_EXEMPT = "(variables.controlled && variables.fromController)"
_UNCHANGED = "(oldObject != null && object.spec == oldObject.spec)"
QUEUEABLE = {
    name: (
        f"{kind.group}/{kind.plural}",
        *(("batch/cronjobs",) if name == BATCH_JOB else ()),
    )
    for name, kind in sorted(FRAMEWORKS.items())
}
"""The resources that each integration lets users queue, as `group/resource`."""


def queue_policy(settings: Settings) -> list[Json]:
    """The policy and its binding to the managed namespaces, if it is enabled."""
    if not settings.queue_name_policy:
        return []
    config = load(settings.config, settings.namespace)
    frameworks = (config.integrations.frameworks if config.integrations else None) or ()
    enabled = [each for name in QUEUEABLE if name in frameworks for each in QUEUEABLE[name]]
    return [policy(enabled), _binding(config.managed_jobs_namespace_selector)]


def policy(enabled: Iterable[str]) -> Json:
    """The policy, given the resources that users can queue, as `group/resource`."""
    listed = ", ".join(f"'{each}'" for each in enabled)
    named_resource = "request.resource.group + '/' + request.resource.resource"
    variables = {"enabled": f"({named_resource}) in [{listed}]", **_VARIABLES}
    return named_object(
        _API,
        "ValidatingAdmissionPolicy",
        NAME,
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": _rules()},
            "matchConditions": _named(_CONDITIONS),
            "variables": _named(variables),
            "validations": [
                {
                    "expression": f"!variables.enabled || variables.queued || {_EXEMPT} || "
                    f"{_UNCHANGED}",
                    "reason": "Forbidden",
                    "message": f"set the label {QUEUE_NAME} (of a CronJob: in spec.jobTemplate."
                    "metadata.labels): in this namespace, work must be queued",
                },
                {
                    "expression": f"variables.enabled || {_EXEMPT} || {_UNCHANGED}",
                    "reason": "Forbidden",
                    "message": "objects of this kind are not queued and would run without quota; "
                    f"submit the work as a job of an enabled kind with the label {QUEUE_NAME}",
                },
                {
                    "expression": "!variables.belowJob || variables.fromController || "
                    "variables.sameOwners",
                    "reason": "Forbidden",
                    "message": "an owner reference names a job as the controller of this object, "
                    "which would run on the quota of that job; remove the reference",
                },
            ],
        },
    )


def _binding(selector: LabelSelector | None) -> Json:
    spec: Json = {"policyName": NAME, "validationActions": ["Deny"]}
    if selector is not None:
        spec["matchResources"] = {"namespaceSelector": msgspec.to_builtins(selector)}
    return named_object(_API, "ValidatingAdmissionPolicyBinding", NAME, spec=spec)


def _rules() -> list[Json]:
    """Return a rule for each group and version of kinds with pods."""
    resources: dict[tuple[str, str], list[str]] = {}
    known = [(each.group, each.version, each.plural) for each in FRAMEWORKS.values()]
    for group, version, plural in sorted((*known, *_OTHERS)):
        resources.setdefault((group, version), []).append(plural)
    return [_rule(*at, plurals) for at, plurals in resources.items()]


def _rule(group: str, version: str, resources: list[str]) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "scope": "Namespaced",
    }


def _named(expressions: dict[str, str]) -> list[Json]:
    return [{"name": name, "expression": each} for name, each in expressions.items()]
