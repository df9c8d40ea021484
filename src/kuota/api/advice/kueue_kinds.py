# SPDX-License-Identifier: Apache-2.0
"""Warns about ClusterQueues and AdmissionChecks through which no workload can be admitted."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, invalid, required
from ..kueue import GROUP, MULTIKUEUE, PROVISIONING
from ..rules.report import child, text

_NOT_BUILT = {MULTIKUEUE: "MultiKueue", PROVISIONING: "ProvisioningRequests"}


def _is(obj: Json, kind: str) -> bool:
    return obj.get("kind") == kind and text(obj.get("apiVersion")).startswith(f"{GROUP}/")


def queue_without_namespaces(obj: Json) -> Iterator[FieldError]:
    """Yield a warning if a ClusterQueue has no namespaceSelector. An empty one selects all."""
    if _is(obj, "ClusterQueue") and child(obj, "spec").get("namespaceSelector") is None:
        message = "is not set, so the queue matches no namespace and admits no workload"
        fix = "set it to {} to match every namespace, or select namespaces by label"
        yield required("spec.namespaceSelector", message, fix)


def check_without_controller(obj: Json) -> Iterator[FieldError]:
    """Yield a warning if an AdmissionCheck names a Kueue controller that Kuota does not have."""
    name = text(child(obj, "spec").get("controllerName"))
    if _is(obj, "AdmissionCheck") and name in _NOT_BUILT:
        message = (
            f"Kuota has no controller for {_NOT_BUILT[name]} yet, so the check stays inactive, "
            "and ClusterQueues that use it admit no workload"
        )
        fix = "remove the check from ClusterQueues, or run a controller that sets its conditions"
        yield invalid("spec.controllerName", name, message, fix)
