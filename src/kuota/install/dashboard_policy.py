# SPDX-License-Identifier: Apache-2.0
"""A ValidatingAdmissionPolicy that limits what the account of the dashboard can change.

For viewers behind a proxy, the dashboard carries out actions with its own account. RBAC grants
whole objects: whoever can patch Jobs, Pods or ClusterQueues could run programs or change quota.
With this policy, the account changes only the fields that actions change, in every namespace.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.crds import GROUP
from kuota.api.rules.job_common import PRIORITY_CLASS

from .dashboard import DASHBOARD, patched
from .settings import Settings, named, named_object

NAME = named("dashboard-actions")
_API = "admissionregistration.k8s.io/v1"
_OWN = f"request.resource.group == '{GROUP}'"
_VARIABLES = {
    # Hold and release, priorities of Workloads without a job, and stopped queues.
    "fields": f"{_OWN} ? (request.resource.resource == 'workloads' ? "
    "['active', 'priority', 'priorityClassRef'] : ['stopPolicy']) : []",
    # The priority of a job.
    "label": f"{_OWN} ? '' : '{PRIORITY_CLASS}'",
    "spec": "dyn(object.?spec.orValue({}))",
    "oldSpec": "dyn(oldObject.?spec.orValue({}))",
    "labels": "object.metadata.?labels.orValue({})",
    "oldLabels": "oldObject.metadata.?labels.orValue({})",
}
_SPEC = (
    "variables.spec.all(f, f in variables.fields || "
    "(f in variables.oldSpec && variables.spec[f] == variables.oldSpec[f])) && "
    "variables.oldSpec.all(f, f in variables.fields || f in variables.spec)"
)
_LABELS = (
    "variables.labels.all(l, l == variables.label || "
    "(l in variables.oldLabels && variables.labels[l] == variables.oldLabels[l])) && "
    "variables.oldLabels.all(l, l in variables.labels)"
)
_METADATA = " && ".join(
    f"object.metadata.?{name}.orValue({empty}) == oldObject.metadata.?{name}.orValue({empty})"
    for name, empty in (("annotations", "{}"), ("finalizers", "[]"), ("ownerReferences", "[]"))
)


def dashboard_policy(settings: Settings) -> list[Json]:
    """The policy and its binding; none if the dashboard changes nothing with its own account."""
    if not (settings.dashboard and settings.dashboard_actions and settings.dashboard_proxy_secret):
        return []
    return [
        named_object(_API, "ValidatingAdmissionPolicy", NAME, spec=_spec(settings)),
        named_object(
            _API,
            "ValidatingAdmissionPolicyBinding",
            NAME,
            spec={"policyName": NAME, "validationActions": ["Deny"]},
        ),
    ]


def _spec(settings: Settings) -> Json:
    account = f"system:serviceaccount:{settings.namespace}:{DASHBOARD}"
    condition = {
        "name": "sent-by-the-dashboard",
        "expression": f"request.userInfo.username == '{account}'",
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [_rule(group, plurals) for group, plurals in patched().items()],
        },
        "matchConditions": [condition],
        "variables": [{"name": name, "expression": each} for name, each in _VARIABLES.items()],
        "validations": [
            _validation(_SPEC, "the fields that its actions change"),
            _validation(_LABELS, f"the label {PRIORITY_CLASS} of jobs"),
            _validation(_METADATA, "labels of jobs in the metadata"),
        ],
    }


def _validation(expression: str, limit: str) -> Json:
    return {
        "expression": expression,
        "reason": "Forbidden",
        "message": f"the account of the dashboard may change only {limit}",
    }


def _rule(group: str, plurals: list[str]) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": plurals,
        "scope": "*",
    }
