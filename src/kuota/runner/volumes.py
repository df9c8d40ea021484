# SPDX-License-Identifier: Apache-2.0
"""Creates volumes as directories, fills ConfigMap and Secret volumes, and links mounts.

A hostPath volume is the path itself. All other volumes are in the directory of the pod, belong to
its user, and are deleted with the pod. Everything is created once, before the first process of the
pod starts. Afterwards these directories belong to the user, and a runner that is root must not
touch them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kuota.api.base import Json
from kuota.api.core import containers

from .container_env import LaunchError, Sources, field, resource_field
from .launch import Mount
from .pod_home import PodHome

Files = dict[str, bytes]
_WAITS = "ContainerCreating"
_MODE = 0o644


def volume_paths(pod: Json, home: PodHome) -> dict[str, str]:
    """The path of each volume, by name."""
    return {
        each["name"]: (each.get("hostPath") or {}).get("path") or home.volume(each["name"])
        for each in pod["spec"].get("volumes") or ()
    }


def make_volumes(pod: Json, home: PodHome, sources: Sources, uid: int | None) -> None:
    """Create all volumes of the pod, for this user if given. Raises LaunchError."""
    for volume in pod["spec"].get("volumes") or ():
        if "hostPath" in volume:
            _check_host_path(volume["hostPath"], uid)
            continue
        files = _files(pod, volume, sources)
        path = home.volume(volume["name"])
        os.makedirs(path, exist_ok=True)
        for file, content in (files or {}).items():
            _write(path, file, content, _mode(volume))


def link_mounts(home: PodHome, mounts: Sequence[Mount]) -> None:
    """Link each mount path to its directory, inside the pod's root."""
    for each in mounts:
        place = home.root + each.path
        if os.path.lexists(place) or each.path == "/":
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if each.source.startswith(home.path) and not os.path.exists(each.source):
            os.makedirs(each.source)  # A subPath that does not exist yet.
        os.symlink(each.source, place)


def hand_over(home: PodHome, uid: int | None) -> None:
    """Make the pod's user the owner of its root and volumes."""
    if uid is None:
        return
    for path in (home.root, *(entry.path for entry in os.scandir(home.path + "/volumes"))):
        os.chmod(path, 0o700)
        os.chown(path, uid, -1)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(os.path.join(folder, name), uid, -1, follow_symlinks=False)


def references(pod: Json) -> tuple[set[str], set[str]]:
    """The names of the ConfigMaps and Secrets that the pod refers to."""
    sources: list[Json] = []
    for container in containers(pod["spec"]):
        sources += container.get("envFrom") or ()
        sources += (each.get("valueFrom") or {} for each in container.get("env") or ())
    for volume in pod["spec"].get("volumes") or ():
        sources += (volume, *((volume.get("projected") or {}).get("sources") or ()))
    maps = _names(sources, "configMapRef", "configMapKeyRef", "configMap")
    return maps, _names(sources, "secretRef", "secretKeyRef", "secret")


def _names(sources: Iterable[Json], *fields: str) -> set[str]:
    found = (_name(source.get(field) or {}) for source in sources for field in fields)
    return {name for name in found if name}


def _name(ref: Json) -> str:
    """The name in a reference. Secret volumes use `secretName`, all others `name`."""
    return ref.get("secretName") or ref.get("name") or ""


def _check_host_path(asked: Json, uid: int | None) -> None:
    """Create the path if requested. Root does not create paths for other users."""
    path, kind = asked.get("path") or "", asked.get("type") or ""
    if not path.startswith("/") or ".." in path.split("/"):
        raise LaunchError(
            "StartError", f"hostPath {path!r} is not an absolute path", permanent=True
        )
    if os.path.exists(path):
        return
    if kind == "DirectoryOrCreate" and not uid:
        os.makedirs(path)
    elif kind == "FileOrCreate" and not uid:
        _write(os.path.dirname(path), os.path.basename(path), b"", _MODE)
    elif kind:
        raise LaunchError(_WAITS, f"hostPath {path} does not exist")


def _files(pod: Json, volume: Json, sources: Sources) -> Files | None:
    """The initial files of the volume; None for an empty one. Raises LaunchError."""
    if "projected" in volume:
        files: Files = {}
        for part in volume["projected"].get("sources") or ():
            files.update(_part(pod, part, sources) or {})
        return files
    if "emptyDir" in volume or len(volume) == 1:
        return None
    found = _part(pod, volume, sources)
    if found is None:
        kind = ", ".join(name for name in volume if name != "name")
        message = f"volume {volume['name']!r} is a {kind}, which is not supported here"
        raise LaunchError("StartError", message, permanent=True)
    return found


def _part(pod: Json, part: Json, sources: Sources) -> Files | None:
    for kind in ("configMap", "secret"):
        if kind in part:
            return _chosen(part[kind], kind.lower(), sources)
    if "downwardAPI" in part:
        return {
            item["path"]: _downward(pod, item, sources).encode()
            for item in part["downwardAPI"].get("items") or ()
        }
    if "serviceAccountToken" in part:
        return {}  # Nothing here requests it.
    return None


def _downward(pod: Json, item: Json, sources: Sources) -> str:
    if "fieldRef" in item:
        return field(pod, item["fieldRef"].get("fieldPath") or "", sources)
    return resource_field(pod, {"name": ""}, item.get("resourceFieldRef") or {}, sources)


def _chosen(asked: Json, kind: str, sources: Sources) -> Files:
    name = _name(asked)
    files = sources.entries(kind, name)
    if files is None:
        if asked.get("optional"):
            return {}
        raise LaunchError(_WAITS, f'"{name}" not found')
    items = asked.get("items")
    if not items:
        return files
    missing = [item["key"] for item in items if item["key"] not in files]
    if missing and not asked.get("optional"):
        raise LaunchError(_WAITS, f'"{name}" has no key {missing[0]!r}')
    return {item["path"]: files[item["key"]] for item in items if item["key"] in files}


def _mode(volume: Json) -> int:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if kind in volume:
            return int(volume[kind].get("defaultMode") or _MODE)
    return _MODE


def _write(folder: str, name: str, content: bytes, mode: int) -> None:
    """Write a file below the directory. The name must not lead outside."""
    if name.startswith("/") or ".." in name.split("/"):
        raise LaunchError(
            "StartError", f"path {name!r} leads outside of its volume", permanent=True
        )
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, mode)
