# SPDX-License-Identifier: Apache-2.0
"""Decides which files a pod needs: directories of volumes, their content, and links to them. Pure.

A hostPath volume is the path itself. All other volumes are in the directory of the pod, belong to
its user, and are deleted with the pod. `pod_files` creates everything once, as the user of the pod,
before the first process of the pod starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kuota.api import names
from kuota.api.base import Json
from kuota.api.core import containers
from kuota.api.rules.processes import process_faults
from kuota.api.rules.volumes import relative_path_faults, user_faults, volume_faults

from .container_env import CONFIG_ERROR, LaunchError, Sources, field, resource_field
from .launch import Mount
from .pod_home import PodHome

Files = dict[str, tuple[bytes, int]]
"""Content and mode by relative path."""
_WAITS = "ContainerCreating"
_MODE = 0o644
MOST_CONTAINERS = 128
"""The containers of one pod. Each has a parent process, which belongs to no quota."""
MOST_FILE_BYTES = 64 << 20
"""The bytes of all files that Kuota creates for one pod. A process may create more."""


def check_spec(spec: Json) -> None:
    """Raise LaunchError for what must not become files or processes of this machine.

    The server rejects them too, but the pod may have been stored by an older version.
    """
    rules = (volume_faults, user_faults, process_faults)
    found = [fault for faults in rules for fault in faults(spec, "spec")]
    if found:
        raise LaunchError(CONFIG_ERROR, "; ".join(map(str, found)), permanent=True)
    count = len(containers(spec))
    if count > MOST_CONTAINERS:
        message = f"the pod has {count} containers, and at most {MOST_CONTAINERS} can run here"
        raise LaunchError(CONFIG_ERROR, message, permanent=True)
    for each in containers(spec):
        if names.dns_label(str(each.get("name"))):
            message = f"{each.get('name')!r} is not a valid name of a container"
            raise LaunchError(CONFIG_ERROR, message, permanent=True)


def volume_paths(pod: Json, home: PodHome) -> dict[str, str]:
    """The path of each volume, by name."""
    return {
        each["name"]: (each.get("hostPath") or {}).get("path") or home.volume(each["name"])
        for each in pod["spec"].get("volumes") or ()
    }


def files_plan(
    pod: Json, home: PodHome, sources: Sources, mounts: Sequence[Mount]
) -> dict[str, Any]:
    """What `pod_files.prepare` creates. Raises LaunchError."""
    volumes = pod["spec"].get("volumes") or ()
    hosts = {each["name"]: each["hostPath"] for each in volumes if "hostPath" in each}
    files = []
    left = MOST_FILE_BYTES
    for volume in (each for each in volumes if each["name"] not in hosts):
        for path, (content, mode) in _files(pod, volume, sources).items():
            files.append((volume["name"], path, content, mode))
            left -= len(content)
        if left < 0:
            message = f"the volumes contain more than {MOST_FILE_BYTES >> 20} MiB of ConfigMaps"
            raise LaunchError(CONFIG_ERROR, f"{message} and Secrets", permanent=True)
    return {
        "root": home.root,
        "volumes": home.volumes,
        "directories": [each["name"] for each in volumes if each["name"] not in hosts],
        "files": files,
        "host_paths": [(each["path"], each.get("type") or "") for each in hosts.values()],
        "mounts": [
            (each.volume, (hosts.get(each.volume) or {}).get("path") or "", each.inside, each.path)
            for each in mounts
        ],
    }


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


def _files(pod: Json, volume: Json, sources: Sources) -> Files:
    """The initial files of the volume. Raises LaunchError."""
    if "projected" in volume:
        files: Files = {}
        mode = _mode(volume["projected"], _MODE)
        for part in volume["projected"].get("sources") or ():
            files.update(_checked(_part(pod, part, sources, mode) or ()))
        return files
    if "emptyDir" in volume or len(volume) == 1:
        return {}
    found = _part(pod, volume, sources, _MODE)
    if found is None:
        kind = ", ".join(name for name in volume if name != "name")
        message = f"volume {volume['name']!r} is a {kind}, which is not supported here"
        raise LaunchError("StartError", message, permanent=True)
    return _checked(found)


def _checked(files: Iterable[tuple[str, bytes, int]]) -> Files:
    """The files by path. Raises LaunchError for a path that leads outside of its volume."""
    found = {}
    for path, content, mode in files:
        for fault in relative_path_faults(path, "path", needed=True):
            message = f"path {path!r} leads outside of its volume: {fault.message}"
            raise LaunchError("StartError", message, permanent=True)
        found[path] = (content, mode)
    return found


def _part(
    pod: Json, part: Json, sources: Sources, mode: int
) -> Iterable[tuple[str, bytes, int]] | None:
    for kind in ("configMap", "secret"):
        if kind in part:
            return _chosen(part[kind], kind.lower(), sources, _mode(part[kind], mode))
    if "downwardAPI" in part:
        asked = part["downwardAPI"]
        default = _mode(asked, mode)
        return [
            (item["path"], _downward(pod, item, sources).encode(), _mode(item, default, "mode"))
            for item in asked.get("items") or ()
        ]
    if "serviceAccountToken" in part:
        return ()  # Nothing here requests it.
    return None


def _mode(asked: Json, default: int, field: str = "defaultMode") -> int:
    found = asked.get(field)
    return default if found is None else int(found)


def _downward(pod: Json, item: Json, sources: Sources) -> str:
    if "fieldRef" in item:
        return field(pod, item["fieldRef"].get("fieldPath") or "", sources)
    return resource_field(pod, {"name": ""}, item.get("resourceFieldRef") or {}, sources)


def _chosen(
    asked: Json, kind: str, sources: Sources, mode: int
) -> Iterator[tuple[str, bytes, int]]:
    name = _name(asked)
    files = sources.entries(kind, name)
    if files is None:
        if asked.get("optional"):
            return
        raise LaunchError(_WAITS, f'"{name}" not found')
    items = asked.get("items")
    if not items:
        yield from ((key, content, mode) for key, content in files.items())
        return
    missing = [item["key"] for item in items if item["key"] not in files]
    if missing and not asked.get("optional"):
        raise LaunchError(_WAITS, f'"{name}" has no key {missing[0]!r}')
    for item in items:
        if item["key"] in files:
            yield item["path"], files[item["key"]], _mode(item, mode, "mode")
