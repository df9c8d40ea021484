# SPDX-License-Identifier: Apache-2.0
"""Writes the fields of Kubernetes' own kinds: their types and their descriptions.

The files are src/kuota/server/shapes.json and shape_descriptions.json. Their source is the official
Python client, which is generated from Kubernetes' published API description. Types are written as
in `kuota.server.shapes`. With `--check`, report whether the files are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

SHAPES = Path("src/kuota/server/shapes.json")
DESCRIPTIONS = Path("src/kuota/server/shape_descriptions.json")
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


_LONGEST_DESCRIPTION = 160
"""Descriptions end with the last sentence within this many characters; the first one is kept."""
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z`\"'])")


def tables() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return the fields of each type that the roots reach, and their descriptions.

    The name of a required field ends in "!". The description of a type itself has the key "".
    """
    found: dict[str, dict[str, str]] = {}
    words: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if spelt(name) not in found:
            fields, below = described(name)
            found[spelt(name)] = fields
            words[spelt(name)] = descriptions(name)
            waiting.extend(below)
    return dict(sorted(found.items())), dict(sorted(words.items()))


def descriptions(name: str) -> dict[str, str]:
    """Return the descriptions of a model and of its fields, without empty ones."""
    model = model_of(name)
    about = (model.__doc__ or "").partition("Attributes:")[0]
    found = {"": shortened(about)}
    for attribute, field in sorted(model.model_fields.items()):
        spelling = field.serialization_alias or attribute
        found[spelling] = shortened(field.description or "")
    if "metadata" in model.openapi_types:  # An object: the server describes these fields itself.
        found |= {"apiVersion": "", "kind": ""}
    return {field: text for field, text in found.items() if text}


def shortened(text: str) -> str:
    """Return the first sentences of the text, on one line."""
    first, *others = _SENTENCE_END.split(" ".join(text.split()))
    for each in others:
        if len(first) + 1 + len(each) > _LONGEST_DESCRIPTION or each.startswith("More info"):
            break
        first = f"{first} {each}"
    return first


def model_of(name: str) -> Any:
    from kubernetes.client import models

    return getattr(models, name)


def described(name: str) -> tuple[dict[str, str], list[str]]:
    """The fields of one model, and the models that these name."""
    model = model_of(name)
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
    stale = []
    for page, table in zip((SHAPES, DESCRIPTIONS), tables(), strict=True):
        text = json.dumps(table, indent=0, separators=(",", ":"), ensure_ascii=False) + "\n"
        if argv != ["--check"]:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            stale.append(str(page))
    if stale:
        print(f"{' and '.join(stale)}: stale; run python scripts/shapes.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
