# SPDX-License-Identifier: Apache-2.0
"""Writes src/kuota/server/shapes.json: which fields Kubernetes' own kinds have, and of what type.

They are read off the models of the official Python client, which is generated from Kubernetes'
published API description. Types are written as in `kuota.server.shapes`. With `--check` it is only
said whether the file is fresh.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path("src/kuota/server/shapes.json")
ROOTS = (
    "V1Namespace",
    "V1Node",
    "V1Pod",
    "V1Binding",
    "CoreV1Event",
    "EventsV1Event",
    "V1ConfigMap",
    "V1Secret",
    "V1ServiceAccount",
    "V1Service",
    "V1LimitRange",
    "V1ResourceQuota",
    "V1Job",
    "V1CronJob",
    "V1Deployment",
    "V1StatefulSet",
    "V1ReplicaSet",
    "V1ControllerRevision",
    "V1PriorityClass",
    "V1Lease",
    "V1RuntimeClass",
    "V1CustomResourceDefinition",
    "V1ValidatingAdmissionPolicy",
    "V1ValidatingAdmissionPolicyBinding",
    "V1Scale",
    "V1SelfSubjectAccessReview",
    "V1SelfSubjectRulesReview",
    "V1SelfSubjectReview",
    "V1SubjectAccessReview",
    "V1LocalSubjectAccessReview",
    "V1TokenReview",
    "V1ClusterRole",
    "V1ClusterRoleBinding",
    "V1Role",
    "V1RoleBinding",
)
SCALARS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "datetime": "time",
    "object": "any",
    "bytearray": "string",
    "bytes": "string",
}
# A schema in a CRD is data to the server: it is read by its own rules, not by field tables.
OPAQUE = frozenset({"V1JSONSchemaProps"})


def shapes() -> dict[str, dict[str, str]]:
    """Each type that the roots reach, with its fields; a required field's name ends in "!"."""
    found: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if spelt(name) not in found:
            fields, below = described(name)
            found[spelt(name)] = fields
            waiting.extend(below)
    return {name: found[name] for name in sorted(found)}


def described(name: str) -> tuple[dict[str, str], list[str]]:
    """The fields of one model, and the models that these name."""
    from kubernetes.client import models

    model: Any = getattr(models, name)
    # The client renames attributes that a base class of its own has taken.
    required_names = {
        field.serialization_alias or attribute
        for attribute, field in model.model_fields.items()
        if field.is_required()
    }
    fields: dict[str, str] = {}
    below: list[str] = []
    for attribute, type_ in sorted(model.openapi_types.items()):
        required = "!" if model.attribute_map[attribute] in required_names else ""
        fields[model.attribute_map[attribute] + required] = written(type_, below)
    return fields, below


def written(type_: str, below: list[str]) -> str:
    """ "List[V1Container]" as "[]Container", and the like."""
    if found := re.fullmatch(r"List\[(.*)\]", type_):
        return "[]" + written(found[1], below)
    if found := re.fullmatch(r"Dict\[str, (.*)\]", type_):
        return "{}" + written(found[1], below)
    if type_ in SCALARS:
        return SCALARS[type_]
    if type_ in OPAQUE:
        return "any"
    below.append(type_)
    return spelt(type_)


def spelt(name: str) -> str:
    """The type's name in Kubernetes' own words; the two kinds of Event stay apart."""
    return re.sub(r"^(Core)?V1(alpha\d+|beta\d+)?(?=[A-Z])", "", name)


def main(argv: list[str]) -> int:
    text = json.dumps(shapes(), indent=0, separators=(",", ":")) + "\n"
    if argv == ["--check"]:
        if PAGE.read_text() != text:
            print(f"{PAGE} is stale; run python scripts/shapes.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
