# SPDX-License-Identifier: Apache-2.0
"""The webhook configurations for the API server, as Kueue ships them."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json
from kuota.api.rules.pod import SUSPENDING_PARENT

from .targets import WebhookTarget, targets

NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
MUTATING_NAME = "kueue-mutating-webhook-configuration"
VALIDATING_NAME = "kueue-validating-webhook-configuration"
_API = "admissionregistration.k8s.io/v1"
_CHECKED_ON = ("CREATE", "UPDATE")
_HAS_PARENT = " || ".join(
    f"({each} != null && has({each}.metadata.annotations) && "
    f"'{SUSPENDING_PARENT}' in {each}.metadata.annotations)"
    for each in ("object", "oldObject")
)


def configurations(
    service_namespace: str = NAMESPACE,
    service_name: str = SERVICE,
    integrations: Iterable[str] | None = None,
    *,
    namespace_selector: Json | None = None,
    url: str = "",
    reinvocation: str = "",
) -> list[Json]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Without `integrations` (names as in Kueue's configuration) all are listed, as in Kueue. If Pods
    are queued for other kinds only, the API server asks about no other Pods.
    `namespace_selector` selects the namespaces of jobs; the default is all but kube-system and our
    own. `url` replaces the service.
    """
    selector = namespace_selector or _elsewhere(service_namespace)
    picked = list(targets(integrations))

    def client(path: str) -> Json:
        service = {"namespace": service_namespace, "name": service_name, "path": path}
        return {"url": f"{url}{path}"} if url else {"service": service}

    mutating = [
        _entry("m", each, client(each.mutating_path), selector) | _mutated(each, reinvocation)
        for each in picked
        if each.mutated_on
    ]
    validating = [
        _entry("v", each, client(each.validating_path), selector) | _validated(each)
        for each in picked
    ]
    return [
        _configuration("MutatingWebhookConfiguration", MUTATING_NAME, mutating),
        _configuration("ValidatingWebhookConfiguration", VALIDATING_NAME, validating),
    ]


def _configuration(kind: str, name: str, webhooks: list[Json]) -> Json:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def _elsewhere(namespace: str) -> Json:
    own = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", namespace],
    }
    return {"matchExpressions": [own]}


def _entry(letter: str, target: WebhookTarget, client: Json, selector: Json) -> Json:
    entry: Json = {
        "name": f"{letter}{target.kind.lower()}.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "sideEffects": "None",
    }
    if target.implied:
        entry["matchConditions"] = [{"name": "has-parent", "expression": _HAS_PARENT}]
    return entry | ({"namespaceSelector": selector} if target.framework else {})


def _mutated(target: WebhookTarget, reinvocation: str) -> Json:
    policy = {"reinvocationPolicy": reinvocation} if reinvocation else {}
    return policy | {"rules": [_rule(target, target.mutated_on, [target.plural])]}


def _validated(target: WebhookTarget) -> Json:
    below = [f"{target.plural}/{each}" for each in target.subresources]
    return {"rules": [_rule(target, _CHECKED_ON, [target.plural, *below])]}


def _rule(target: WebhookTarget, operations: tuple[str, ...], resources: list[str]) -> Json:
    return {
        "apiGroups": [target.group],
        "apiVersions": [target.version],
        "operations": list(operations),
        "resources": resources,
    }
