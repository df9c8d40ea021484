# SPDX-License-Identifier: Apache-2.0
"""Warns about ClusterQueues and AdmissionChecks through which no workload can be admitted."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, invalid, required
from ..kueue import GROUP
from ..rules.report import child, text
from ..structure import suggestion
from .environment import Environment


def _is(obj: Json, kind: str) -> bool:
    return obj.get("kind") == kind and text(obj.get("apiVersion")).startswith(f"{GROUP}/")


def queue_without_namespaces(obj: Json) -> Iterator[FieldError]:
    """Yield a warning if a ClusterQueue has no namespaceSelector. An empty one selects all."""
    if _is(obj, "ClusterQueue") and child(obj, "spec").get("namespaceSelector") is None:
        message = "is not set, so the queue matches no namespace and admits no workload"
        fix = "set it to {} to match every namespace, or select namespaces by label"
        yield required("spec.namespaceSelector", message, fix)


def check_without_controller(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning if an AdmissionCheck names a controller that Kuota does not have."""
    name, known = text(child(obj, "spec").get("controllerName")), environment.check_controllers
    if not _is(obj, "AdmissionCheck") or not name or name in known:
        return
    message = (
        "Kuota has no controller of this name: until another program sets the condition Active, "
        "the check stays inactive, and ClusterQueues that use it admit no workload"
    )
    fix = suggestion(name, known) or (
        "run that controller, install the package that provides it, or remove the check from "
        "ClusterQueues"
    )
    yield invalid("spec.controllerName", name, message, fix)
