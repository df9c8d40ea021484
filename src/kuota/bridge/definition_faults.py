# SPDX-License-Identifier: Apache-2.0
"""Why jobs of a CustomResourceDefinition cannot be queued."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.rules.report import child, elements, mapping, text
from kuota.engine.model import Struct

VERSION_NOT_SERVED = "VersionNotServed"
STATUS_MISSING = "StatusMissing"
_OPEN = "x-kubernetes-preserve-unknown-fields"


class DefinitionFault(Struct):
    """The reason and the message of an event about a definition."""

    reason: str
    message: str


def definition_fault(definition: Json, version: str) -> DefinitionFault | None:
    """Return why jobs of a definition cannot be queued in this version; None if they can."""
    spec = child(definition, "spec")
    kind = text(child(spec, "names").get("kind"))
    versions = [mapping(each) for each in elements(spec.get("versions"))]
    served = {text(each.get("name")): each for each in versions if each.get("served") is True}
    if version not in served:
        known = ", ".join(sorted(served)) or "none"
        message = (
            f"{kind} is queued in version {version}, but the definition serves {known}; jobs of "
            f"this kind are not queued. Install a release of its operator that serves {version}"
        )
        return DefinitionFault(reason=VERSION_NOT_SERVED, message=message)
    schema = child(served[version], "schema", "openAPIV3Schema")
    if "status" in child(schema, "properties") or schema.get(_OPEN) is True:
        return None
    message = (
        f"the definition of {kind} {version} has no status, so nothing reports that its jobs run "
        "or end; their quota is released only when they are deleted. Install a definition with a "
        "status"
    )
    return DefinitionFault(reason=STATUS_MISSING, message=message)
