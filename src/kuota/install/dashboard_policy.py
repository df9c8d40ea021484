# SPDX-License-Identifier: Apache-2.0
"""A ValidatingAdmissionPolicy that limits what the account of the dashboard can change.

For viewers behind a proxy, the dashboard carries out actions with its own account. RBAC grants
whole objects: whoever can patch Jobs, Pods or ClusterQueues could run programs or change quota.
With this policy, the account changes only the fields that actions change, in every namespace.

The webhooks of Deployments, StatefulSets and LeaderWorkerSets copy the priority to the labels of
their pod templates. The policy sees the result, so it allows that, too.
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
_SERVING = "request.resource.group == 'leaderworkerset.x-k8s.io'"
_TWO = "['leaderTemplate', 'workerTemplate']"


def _kept(new: str, old: str, name: str, changeable: str) -> str:
    """Whether two maps differ in nothing but the keys `name` for which `changeable` holds."""
    same = f"{name} in {old} && {new}[{name}] == {old}[{name}]"
    return (
        f"{new}.all({name}, {changeable} || ({same})) && "
        f"{old}.all({name}, {changeable} || {name} in {new})"
    )


def _template(at: str) -> str:
    """Whether a pod template differs in nothing but the label of the priority."""
    new, old = f"variables.templates[{at}]", f"variables.oldTemplates[{at}]"
    metadata, before = (f"{each}.?metadata.orValue({{}})" for each in (new, old))
    labels, labels_before = (f"{each}.?labels.orValue({{}})" for each in (metadata, before))
    return " && ".join(
        (
            f"{new}.?spec.orValue({{}}) == {old}.?spec.orValue({{}})",
            _kept(metadata, before, "m", "m == 'labels'"),
            _kept(labels, labels_before, "l", f"l == '{PRIORITY_CLASS}'"),
        )
    )


def _templates(of: str) -> str:
    parts = [f"{of}.?{each}.orValue({{}})" for each in ("leaderTemplate", "workerTemplate")]
    return f"{_SERVING} ? [{', '.join(parts)}] : [{of}, dyn({{}})]"


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
    # The pod templates, and the field of the spec that contains them.
    "holder": f"request.resource.group == 'apps' ? 'template' : "
    f"({_SERVING} ? 'leaderWorkerTemplate' : '')",
    "held": "variables.holder in variables.spec ? variables.spec[variables.holder] : dyn({})",
    "oldHeld": "variables.holder in variables.oldSpec ? "
    "variables.oldSpec[variables.holder] : dyn({})",
    "templates": _templates("variables.held"),
    "oldTemplates": _templates("variables.oldHeld"),
    "templatesKept": f"{_template('0')} && {_template('1')} && (!({_SERVING}) || "
    f"({_kept('variables.held', 'variables.oldHeld', 'f', f'f in {_TWO}')}))",
}
_SPEC = _kept(
    "variables.spec",
    "variables.oldSpec",
    "f",
    "(f in variables.fields || (f == variables.holder && variables.templatesKept))",
)
_LABELS = _kept("variables.labels", "variables.oldLabels", "l", "l == variables.label")
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
