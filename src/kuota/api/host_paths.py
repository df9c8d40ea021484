# SPDX-License-Identifier: Apache-2.0
"""Which directories of the machine the pods of a namespace may use as hostPath volumes. Pure.

An admin lists them in the annotation `kuota.dev/host-paths` of the namespace, such as
`/data:ro,/scratch/vision:rw`; without a suffix, a directory is read-only. Without the annotation
there are none, except that on a server that runs as root every user may use their own home
directory. Pods that an admin submitted may use any directory. See docs/decisions/031.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from .base import Json
from .faults import FieldError, forbidden, invalid
from .rules.report import child, objects, string_map, text
from .rules.volumes import CONTAINERS

HOST_PATHS = "kuota.dev/host-paths"
_FORM = "must list absolute paths, such as /data:ro,/scratch:rw"


class HostDirectory(msgspec.Struct, frozen=True):
    """A directory that pods may use. `writable` unless it is read-only for them."""

    path: str
    writable: bool = False

    def contains(self, path: str) -> bool:
        """Whether the path is this directory or in it, by its text alone."""
        whole = posixpath.normpath("/" + path.lstrip("/"))
        return whole == self.path or whole.startswith(self.path.rstrip("/") + "/")


def listed_directories(namespace: Json) -> tuple[HostDirectory, ...]:
    """The directories that the namespace lists. Malformed entries allow nothing."""
    written = string_map(child(namespace, "metadata", "annotations")).get(HOST_PATHS, "")
    return tuple(found for word in _words(written) if (found := _directory(word)) is not None)


def annotation_faults(namespace: Json) -> Iterator[FieldError]:
    """Yield the faults of the annotation of a namespace."""
    written = string_map(child(namespace, "metadata", "annotations")).get(HOST_PATHS, "")
    for word in _words(written):
        if _directory(word) is None:
            yield invalid(f"metadata.annotations[{HOST_PATHS}]", word, _FORM)


def host_path_faults(
    spec: Json, path: str, allowed: Sequence[HostDirectory], namespace: str
) -> Iterator[FieldError]:
    """Yield a fault for each hostPath volume of a pod spec that the directories do not cover."""
    read_only: dict[str, bool] = {}
    for place, volume in objects(spec.get("volumes"), f"{path}.volumes"):
        if "hostPath" not in volume:
            continue
        where = text(child(volume, "hostPath").get("path"))
        cover = [each for each in allowed if each.contains(where)]
        if not cover:
            yield forbidden(f"{place}.hostPath", _rejection(where, allowed, namespace))
        else:
            read_only[text(volume.get("name"))] = not any(each.writable for each in cover)
    yield from _mount_faults(spec, path, read_only)


def _mount_faults(spec: Json, path: str, read_only: Mapping[str, bool]) -> Iterator[FieldError]:
    for field in CONTAINERS:
        for below, container in objects(spec.get(field), f"{path}.{field}"):
            for place, mount in objects(container.get("volumeMounts"), f"{below}.volumeMounts"):
                if read_only.get(text(mount.get("name"))) and mount.get("readOnly") is not True:
                    message = "must be true: an admin allows this directory for reading only"
                    yield forbidden(f"{place}.readOnly", message)


def _rejection(where: str, allowed: Sequence[HostDirectory], namespace: str) -> str:
    known = ", ".join(f"{each.path} ({'rw' if each.writable else 'ro'})" for each in allowed)
    return (
        f"hostPath {where} is not allowed in namespace {namespace}; allowed: {known or 'none'}. "
        f"An admin allows a directory with `kubectl annotate namespace {namespace} "
        f"{HOST_PATHS}={where}:ro`"
    )


def _words(written: str) -> list[str]:
    return [word for part in written.split(",") if (word := part.strip())]


def _directory(word: str) -> HostDirectory | None:
    path, colon, mode = word.partition(":")
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        return None
    if colon and mode not in ("ro", "rw"):
        return None
    return HostDirectory(posixpath.normpath("/" + path.lstrip("/")), mode == "rw")
