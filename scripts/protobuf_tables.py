# SPDX-License-Identifier: Apache-2.0
"""Writes src/kuota/server/protobuf_tables.py: the wire facts of Kubernetes' built-in kinds.

    python scripts/protobuf_tables.py MODULES

MODULES is a Go module cache that holds k8s.io/api and k8s.io/apimachinery (`go mod download`).
Read are the public struct declarations, since they alone say all that is needed: field numbers,
names in JSON, whether zero differs from absent, merge keys and list types. The notation of the
table is explained in `kuota.server.wire`. Only facts are written, no text of the declarations.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

VERSION = "v0.36.3"
META = "apimachinery/pkg/apis/meta/v1"
CORE = "api/core/v1"
OUT = Path("src/kuota/server/protobuf_tables.py")

KINDS = {
    CORE: "Binding ConfigMap Event LimitRange Namespace Node Pod ResourceQuota Secret Service"
    " ServiceAccount",
    "api/apps/v1": "ControllerRevision Deployment ReplicaSet StatefulSet",
    "api/batch/v1": "CronJob Job",
    "api/events/v1": "Event",
    "api/coordination/v1": "Lease",
    "api/scheduling/v1": "PriorityClass",
    "api/node/v1": "RuntimeClass",
    "api/authorization/v1": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "api/authentication/v1": "SelfSubjectReview TokenRequest TokenReview",
    "api/rbac/v1": "RoleBinding",
    "api/policy/v1": "Eviction",
    "api/autoscaling/v1": "Scale",
    META: "DeleteOptions",
}
GROUPS = {
    CORE: "v1",
    "api/apps/v1": "apps/v1",
    "api/batch/v1": "batch/v1",
    "api/events/v1": "events.k8s.io/v1",
    "api/coordination/v1": "coordination.k8s.io/v1",
    "api/scheduling/v1": "scheduling.k8s.io/v1",
    "api/node/v1": "node.k8s.io/v1",
    "api/authorization/v1": "authorization.k8s.io/v1",
    "api/authentication/v1": "authentication.k8s.io/v1",
    "api/rbac/v1": "rbac.authorization.k8s.io/v1",
    "api/policy/v1": "policy/v1",
    "api/autoscaling/v1": "autoscaling/v1",
    META: "meta.k8s.io/v1",
}
SCALARS = {
    "string": "s",
    "bool": "b",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "uint8": "i",
    "float64": "d",
    "[]byte": "y",
    "types.UID": "s",
    "types.NodeName": "s",
}
SPECIAL = {
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
    f"{META}.Time": "Time",
    f"{META}.MicroTime": "MicroTime",
    f"{META}.FieldsV1": "FieldsV1",
}

_IMPORT = re.compile(r'^\t(?:(\w+) )?"k8s\.io/([^"]+)"', re.M)
_STRUCT = re.compile(r"((?:^//[^\n]*\n)*)^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_ALIAS = re.compile(r"^type (\w+) ((?:\[\]|map\[\w+\])?[\w.]+)$", re.M)
_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?(\*?[\w.\[\]*]+)[ \t]+`(.*)`")
_TAG = re.compile(r'(\w+):"([^"]*)"')


class Field(NamedTuple):
    type: str
    tags: dict[str, str]
    markers: dict[str, list[str]]


class Message(NamedTuple):
    fields: list[Field]
    atomic: bool


class Source:
    """The declarations of one Go package, names resolved to their packages."""

    def __init__(self, package: str, text: str) -> None:
        self.package = package
        self.imports = {alias or path.split("/")[-1]: path for alias, path in _IMPORT.findall(text)}
        self.aliases = dict(_ALIAS.findall(text))
        self.messages = {
            name: Message(list(_fields(body)), "+structType=atomic" in notes)
            for notes, name, body in _STRUCT.findall(text)
        }


def _fields(body: str) -> Iterator[Field]:
    markers: dict[str, list[str]] = {}
    for line in body.splitlines():
        if note := re.match(r"\t// \+(\w+)=(.*)", line):
            markers.setdefault(note[1], []).append(note[2].strip('"'))
        elif found := _FIELD.match(line):
            tags = dict(_TAG.findall(found[3]))
            if "protobuf" in tags and "," in tags["protobuf"]:
                yield Field(found[2], tags, markers)
            markers = {}


class Tables:
    """Collects every message that the kinds reach, each written once under a short name."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self.sources = sources
        self.names: dict[tuple[str, str], str] = {}
        self.lines: dict[str, str] = {}

    def add(self, package: str, name: str) -> str:
        """The short name of a message, after writing it and all it reaches."""
        known = self.names.get((package, name))
        if known is not None:
            return known
        short = name
        if short in self.names.values():
            short = package.split("/")[-2].capitalize() + name
        self.names[package, name] = short
        message = self.sources[package].messages[name]
        tokens = [self._token(package, each) for each in message.fields]
        self.lines[short] = short + ("%" if message.atomic else "") + " " + " ".join(tokens)
        return short

    def _token(self, package: str, field: Field) -> str:
        name, *options = field.tags["json"].split(",")
        number = field.tags["protobuf"].split(",")[1]
        required = name and not {"omitempty", "omitzero"} & set(options)
        return (
            f"{name}:{number}{self._type(package, field.type)}"
            f"{'!' if required else ''}{_flags(field)}"
        )

    def _type(self, package: str, text: str) -> str:
        if text in SCALARS:
            return SCALARS[text]
        if text.startswith("*"):
            return "*" + self._type(package, text[1:])
        if text.startswith("[]"):
            return "[]" + self._type(package, text[2:])
        if text.startswith("map["):
            return "{}" + self._type(package, text.partition("]")[2])
        if text in SPECIAL:
            return SPECIAL[text]
        alias, _, name = text.rpartition(".")
        home = self.sources[package].imports[alias] if alias else package
        if f"{home}.{name}" in SPECIAL:
            return SPECIAL[f"{home}.{name}"]
        if name == "ExtraValue":
            return "Items"
        aliased = self.sources[home].aliases.get(name)
        return self._type(home, aliased) if aliased else self.add(home, name)


def _flags(field: Field) -> str:
    flags = ""
    strategy, markers = field.tags.get("patchStrategy", "").split(","), field.markers
    if "merge" in strategy:
        flags += "@" + field.tags.get("patchMergeKey", "")
    if "retainKeys" in strategy:
        flags += "^"
    match markers.get("listType"):
        case ["map"]:
            flags += "#" + ",".join(markers["listMapKey"])
        case ["set"]:
            flags += "#"
        case None if "merge" in strategy:
            flags += "#" + field.tags.get("patchMergeKey", "")
    if markers.get("mapType") == ["atomic"] or markers.get("structType") == ["atomic"]:
        flags += "%"
    default = markers.get("default", [""])[0]
    return flags + (f"={default}" if default == "TCP" else "")


def sources(modules: Path) -> dict[str, Source]:
    found = {}
    for package in KINDS:
        module, _, rest = package.partition("/")
        path = modules / "k8s.io" / f"{module}@{VERSION}" / rest / "types.go"
        found[package] = Source(package, path.read_text())
    return found


PAGE = '''\
# SPDX-License-Identifier: Apache-2.0
"""Wire facts of Kubernetes' built-in kinds, in the notation of `kuota.server.wire`.

Written by scripts/protobuf_tables.py from Kubernetes' public declarations; do not edit.
"""

KINDS = """\\
{kinds}
"""

MESSAGES = """\\
{messages}
"""
'''


def main() -> int:
    """Write the table below the current directory."""
    tables = Tables(sources(Path(sys.argv[1])))
    kinds = []
    for package, names in KINDS.items():
        found = {name: tables.add(package, name) for name in names.split()}
        listed = (name if name == short else f"{name}={short}" for name, short in found.items())
        kinds.append(f"{GROUPS[package]} {' '.join(listed)}")
    messages = (
        textwrap.fill(line, 98, subsequent_indent=" ", break_on_hyphens=False)
        for line in tables.lines.values()
    )
    OUT.write_text(PAGE.format(kinds="\n".join(kinds), messages="\n".join(messages)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
