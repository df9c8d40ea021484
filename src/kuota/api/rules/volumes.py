# SPDX-License-Identifier: Apache-2.0
"""Validates the volumes of a pod, their mounts, and the users that a pod names, as Kubernetes does.

The server applies these rules when a pod or a template is written. The runner applies them again
before it starts a pod, because names, keys and paths become files of the machine, and objects of
older versions were stored without these rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import names
from ..base import Json
from ..faults import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from .report import child, elements, integer, nano, objects, text

MAX_MODE = 0o777
MAX_ID = 2**31 - 1
HOST_PATH_TYPES = (
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_ID = f"must be between 0 and {MAX_ID}, inclusive"


def volume_faults(spec: Json, path: str) -> Iterator[FieldError]:
    """Yield the faults of all volumes and volume mounts of a pod spec."""
    known: dict[str, Json] = {}
    for place, volume in objects(spec.get("volumes"), f"{path}.volumes"):
        name = text(volume.get("name"))
        if not name:
            yield required(f"{place}.name", "must be set")
        elif name in known:
            yield duplicate(f"{place}.name", name, "is taken")
        else:
            yield from (invalid(f"{place}.name", name, each) for each in names.dns_label(name))
        known[name] = volume
        yield from _source_faults(volume, place)
    for field in CONTAINERS:
        for place, container in objects(spec.get(field), f"{path}.{field}"):
            yield from _mount_faults(container, place, known)


def _source_faults(volume: Json, path: str) -> Iterator[FieldError]:
    kinds = [name for name, value in volume.items() if name != "name" and value is not None]
    if not kinds:
        yield required(path, "must specify a volume type")
    for name in kinds[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    if "hostPath" in volume:
        yield from _host_path_faults(child(volume, "hostPath"), f"{path}.hostPath")
    if "emptyDir" in volume:
        size = child(volume, "emptyDir").get("sizeLimit")
        if (nano(size) or 0) < 0:
            place = f"{path}.emptyDir.sizeLimit"
            yield forbidden(place, "SizeLimit field must be a valid resource quantity")
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            source = child(volume, kind)
            yield from _files_faults(kind, source, f"{path}.{kind}")
            if kind != "downwardAPI" and not text(source.get(_name_field(kind))):
                yield required(f"{path}.{kind}.{_name_field(kind)}", "must be set")
    if "projected" in volume:
        yield from _projected_faults(child(volume, "projected"), f"{path}.projected")


def _name_field(kind: str) -> str:
    return "secretName" if kind == "secret" else "name"


def _host_path_faults(source: Json, path: str) -> Iterator[FieldError]:
    where = text(source.get("path"))
    if not where:
        yield required(f"{path}.path", "must be set")
    elif not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must be an absolute path")
    if ".." in where.split("/"):
        yield invalid(f"{path}.path", where, "must not contain '..'")
    yield from _null_faults(f"{path}.path", where)
    kind = source.get("type") or ""
    if kind not in HOST_PATH_TYPES:
        yield _unsupported(f"{path}.type", kind, HOST_PATH_TYPES)


def _projected_faults(projected: Json, path: str) -> Iterator[FieldError]:
    yield from _mode_faults(projected.get("defaultMode"), f"{path}.defaultMode")
    for place, source in objects(projected.get("sources"), f"{path}.sources"):
        kinds = [name for name, value in source.items() if value is not None]
        if len(kinds) > 1:
            yield forbidden(place, "may not specify more than 1 volume type")
        for kind in ("configMap", "secret", "downwardAPI"):
            if kind in source:
                yield from _files_faults(kind, child(source, kind), f"{place}.{kind}")
        for kind in ("serviceAccountToken", "clusterTrustBundle"):
            if kind in source:
                where = text(child(source, kind).get("path"))
                yield from relative_path_faults(where, f"{place}.{kind}.path", needed=True)


def _files_faults(kind: str, source: Json, path: str) -> Iterator[FieldError]:
    """Yield the faults of a source of files: its modes, and the paths of its items."""
    yield from _mode_faults(source.get("defaultMode"), f"{path}.defaultMode")
    for place, item in objects(source.get("items"), f"{path}.items"):
        if kind != "downwardAPI" and not text(item.get("key")):
            yield required(f"{place}.key", "must be set")
        yield from relative_path_faults(text(item.get("path")), f"{place}.path", needed=True)
        yield from _mode_faults(item.get("mode"), f"{place}.mode")
        if kind == "downwardAPI":
            yield from _downward_faults(item, place)


def _downward_faults(item: Json, path: str) -> Iterator[FieldError]:
    given = [name for name in ("fieldRef", "resourceFieldRef") if item.get(name) is not None]
    if not given:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    elif len(given) > 1:
        yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified both")


def relative_path_faults(where: str, path: str, *, needed: bool = False) -> Iterator[FieldError]:
    """Yield the faults of a path that must stay below a directory."""
    if not where:
        if needed:
            yield required(path, "must be set")
        return
    if where.startswith("/"):
        yield invalid(path, where, "must be a relative path")
    if ".." in where.split("/"):
        yield invalid(path, where, "must not contain '..'")
    elif where.startswith("..") and needed:
        yield invalid(path, where, "must not start with '..'")
    yield from _null_faults(path, where)


def _null_faults(path: str, where: str) -> Iterator[FieldError]:
    if "\0" in where:
        yield invalid(path, where, "must not contain null characters")


def _mode_faults(mode: Any, path: str) -> Iterator[FieldError]:
    if mode is not None and not 0 <= (integer(mode) or 0) <= MAX_MODE:
        yield invalid(path, mode, _MODE)


def _mount_faults(container: Json, path: str, known: dict[str, Json]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for place, mount in objects(container.get("volumeMounts"), f"{path}.volumeMounts"):
        name, where = text(mount.get("name")), text(mount.get("mountPath"))
        if not name:
            yield required(f"{place}.name", "must be set")
        elif name not in known:
            yield not_found(f"{place}.name", name, "no volume of that name")
        if not where:
            yield required(f"{place}.mountPath", "must be set")
        elif where in seen:
            yield invalid(f"{place}.mountPath", where, "must be unique")
        seen.add(where)
        yield from _null_faults(f"{place}.mountPath", where)
        inside, expression = text(mount.get("subPath")), text(mount.get("subPathExpr"))
        if inside and expression:
            message = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{place}.subPathExpr", expression, message)
        yield from relative_path_faults(inside, f"{place}.subPath")
        yield from relative_path_faults(expression, f"{place}.subPathExpr")


def user_faults(spec: Json, path: str) -> Iterator[FieldError]:
    """Yield the faults of the user and group ids in the security contexts of a pod spec."""
    context = child(spec, "securityContext")
    place = f"{path}.securityContext"
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        yield from _id_faults(context.get(field), f"{place}.{field}")
    for at, group in enumerate(elements(context.get("supplementalGroups"))):
        yield from _id_faults(group, f"{place}.supplementalGroups[{at}]")
    for field in CONTAINERS:
        for below, container in objects(spec.get(field), f"{path}.{field}"):
            own = child(container, "securityContext")
            for name in ("runAsUser", "runAsGroup"):
                yield from _id_faults(own.get(name), f"{below}.securityContext.{name}")


def _id_faults(value: Any, path: str) -> Iterator[FieldError]:
    if value is not None and not 0 <= (integer(value) or 0) <= MAX_ID:
        yield invalid(path, value, _ID)


def _unsupported(path: str, value: Any, known: tuple[str, ...]) -> FieldError:
    words = ", ".join(f'"{each}"' for each in known)
    return FieldError(
        path=path,
        type=ErrorType.NOT_SUPPORTED,
        message=f"supported values: {words}",
        value=value,
    )
