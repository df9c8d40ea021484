# SPDX-License-Identifier: Apache-2.0
"""Validates the arguments, variables and working directory of the processes of a pod.

Kubernetes leaves null characters to the container runtime, which then cannot start the container.
The server rejects them, and so does the runner, because older versions stored such pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, invalid, required
from .report import elements, objects, text
from .volumes import CONTAINERS

_VARIABLE = re.compile(r"[ -<>-~]+")
_NO_VARIABLE = "must consist only of printable ASCII characters other than '='"
_NULL = "must not contain null characters, which no process can receive"


def process_faults(spec: Json, path: str) -> Iterator[FieldError]:
    """Yield the faults of the processes of a pod spec."""
    yield from _null_faults(text(spec.get("hostname")), f"{path}.hostname")
    for field in CONTAINERS:
        for place, container in objects(spec.get(field), f"{path}.{field}"):
            yield from _container_faults(container, place)


def _container_faults(container: Json, path: str) -> Iterator[FieldError]:
    for field in ("command", "args"):
        for at, word in enumerate(elements(container.get(field))):
            yield from _null_faults(text(word), f"{path}.{field}[{at}]")
    yield from _null_faults(text(container.get("workingDir")), f"{path}.workingDir")
    for place, variable in objects(container.get("env"), f"{path}.env"):
        name = text(variable.get("name"))
        if not name:
            yield required(f"{place}.name", "must be set")
        yield from _name_faults(name, f"{place}.name")
        yield from _null_faults(text(variable.get("value")), f"{place}.value")
    for place, source in objects(container.get("envFrom"), f"{path}.envFrom"):
        yield from _name_faults(text(source.get("prefix")), f"{place}.prefix")


def _name_faults(name: str, path: str) -> Iterator[FieldError]:
    if name and not _VARIABLE.fullmatch(name):
        remedy = "write for example MY_VARIABLE, and its value in `value`"
        yield invalid(path, name, _NO_VARIABLE, remedy)


def _null_faults(value: str, path: str) -> Iterator[FieldError]:
    if "\0" in value:
        yield invalid(path, value, _NULL, "remove them, or mount a file that contains them")
