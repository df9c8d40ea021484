# SPDX-License-Identifier: Apache-2.0
"""A ValidatingAdmissionPolicy that rejects work without a queue in managed namespaces. Opt-in.

Kueue leaves objects without a queue name alone, so they run without quota. The policy applies to
what users create. Objects that a controller creates for another object are exempt, but not the Jobs
of a CronJob, and not objects whose owner a user has invented: the exemption requires a service
account of another namespace, or a component of the control plane.
"""

from __future__ import annotations

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.config.load import load
from kuota.api.rules.job_common import QUEUE_NAME

from .settings import Settings, named, named_object

NAME = named("queue-name-required")
_API = "admissionregistration.k8s.io/v1"

_HAS_QUEUE = (
    f"has(LABELED.metadata) && has(LABELED.metadata.labels) && '{QUEUE_NAME}' in "
    f"LABELED.metadata.labels && LABELED.metadata.labels['{QUEUE_NAME}'] != ''"
)
_VARIABLES = {
    "controlled": "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists("
    "o, has(o.controller) && o.controller && o.kind != 'CronJob')",
    "fromController": "request.userInfo.username == 'system:kube-controller-manager' || "
    "(request.userInfo.username.startsWith('system:serviceaccount:') && "
    "!request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))",
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


def queue_policy(settings: Settings) -> list[Json]:
    """The policy and its binding to the managed namespaces, if it is enabled."""
    if not settings.queue_name_policy:
        return []
    selector = load(settings.config, settings.namespace).managed_jobs_namespace_selector
    return [_policy(), _binding(selector)]


def _policy() -> Json:
    batch = f"request.resource.group != 'batch' || variables.queued || {_EXEMPT} || {_UNCHANGED}"
    others = f"request.resource.group == 'batch' || {_EXEMPT} || {_UNCHANGED}"
    return named_object(
        _API,
        "ValidatingAdmissionPolicy",
        NAME,
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [
                    _rule("batch", "jobs", "cronjobs"),
                    _rule("", "pods", "replicationcontrollers"),
                    _rule("apps", "deployments", "statefulsets", "daemonsets", "replicasets"),
                ],
            },
            "matchConditions": _named(_CONDITIONS),
            "variables": _named(_VARIABLES),
            "validations": [
                {
                    "expression": batch,
                    "reason": "Forbidden",
                    "message": f"set the label {QUEUE_NAME} (of a CronJob: in spec.jobTemplate."
                    "metadata.labels): in this namespace, work must be queued",
                },
                {
                    "expression": others,
                    "reason": "Forbidden",
                    "message": "objects of this kind are not queued and would run without quota; "
                    f"submit the work as a batch/v1 Job with the label {QUEUE_NAME}",
                },
            ],
        },
    )


def _binding(selector: LabelSelector | None) -> Json:
    spec: Json = {"policyName": NAME, "validationActions": ["Deny"]}
    if selector is not None:
        spec["matchResources"] = {"namespaceSelector": msgspec.to_builtins(selector)}
    return named_object(_API, "ValidatingAdmissionPolicyBinding", NAME, spec=spec)


def _rule(group: str, *resources: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(resources),
        "scope": "Namespaced",
    }


def _named(expressions: dict[str, str]) -> list[Json]:
    return [{"name": name, "expression": each} for name, each in expressions.items()]
