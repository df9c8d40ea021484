# SPDX-License-Identifier: Apache-2.0
"""Builds the environment of a container and expands `$(NAME)`. Pure.

Values come from the manifest, fields of the pod, its requests and limits, and from ConfigMaps and
Secrets that were fetched before.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from kuota.api.base import Json
from kuota.api.core import containers
from kuota.api.quantity import parse


class LaunchError(Exception):
    """A container cannot be started. `permanent` means that retrying cannot help.

    `reason` is the reason in the state of the container, as a kubelet would write it.
    """

    def __init__(self, reason: str, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.permanent = permanent


CONFIG_ERROR = "CreateContainerConfigError"
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_NOTHING: Json = {}
LONGEST_TEXT = (128 << 10) - 1
"""The bytes of one argument or variable that the kernel accepts."""
LONGEST_PATH = 4095
MOST_BYTES = 6 << 20
"""The bytes of all arguments, or of all variables, of a process. The kernel accepts no more."""


class Sources(msgspec.Struct, frozen=True):
    """The objects that an environment may refer to, by name."""

    node_name: str = ""
    host_ip: str = "127.0.0.1"
    pod_ip: str = "127.0.0.1"
    allocatable: Mapping[str, str] = {}
    config_maps: Mapping[str, Json] = {}
    secrets: Mapping[str, Json] = {}
    _decoded: dict[tuple[str, str], dict[str, bytes] | None] = {}

    def entries(self, kind: str, name: str) -> dict[str, bytes] | None:
        """All entries of a `configmap` or `secret`; None if it does not exist."""
        if (kind, name) not in self._decoded:
            # A pod may refer to one object thousands of times.
            self._decoded[kind, name] = self._entries(kind, name)
        return self._decoded[kind, name]

    def _entries(self, kind: str, name: str) -> dict[str, bytes] | None:
        if kind == "configmap":
            obj = self.config_maps.get(name)
            coded, plain = "binaryData", "data"
        else:
            obj = self.secrets.get(name)
            coded, plain = "data", "stringData"
        if obj is None:
            return None
        decoded = {key: _decoded(value) for key, value in (obj.get(coded) or {}).items()}
        texts = {key: str(value).encode() for key, value in (obj.get(plain) or {}).items()}
        return decoded | texts


def expanded(text: str, env: Mapping[str, str], most: int = LONGEST_TEXT) -> str:
    """The text with each `$(NAME)` replaced. Unknown names stay, and `$$` becomes `$`.

    Variables may refer to variables that refer to others, so a few words could expand to more than
    any memory holds. Raises LaunchError beyond `most` characters.
    """
    left = most

    def value(match: re.Match[str]) -> str:
        nonlocal left
        name = match.group(1)
        found = "$" if name is None else env.get(name, match.group())
        left -= len(found)
        if left < 0:
            raise _too_long(text, most)
        return found

    result = _REFERENCE.sub(value, text) if "$" in text else text
    if len(result) > most:
        raise _too_long(text, most)
    return result


def _too_long(text: str, most: int) -> LaunchError:
    message = f"{text[:40]!r} expands to more than {most} characters, which the kernel rejects"
    return LaunchError(CONFIG_ERROR, message, permanent=True)


def limited(texts: Iterable[str], what: str) -> tuple[str, ...]:
    """The texts. Raises LaunchError as soon as the kernel would reject them for their size."""
    found, left = [], MOST_BYTES
    for each in texts:
        left -= len(each)
        if left < 0:
            message = f"{what} have more than {MOST_BYTES >> 20} MiB, which the kernel rejects"
            raise LaunchError(CONFIG_ERROR, message, permanent=True)
        found.append(each)
    return tuple(found)


def container_env(
    pod: Json, container: Json, sources: Sources, base: Mapping[str, str]
) -> dict[str, str]:
    """All variables of the container; later ones override earlier ones. Raises LaunchError."""
    env = dict(base)

    def given() -> Iterator[str]:
        for each in container.get("envFrom") or ():
            for name, text in _bulk(each, sources):
                env[name] = text
                yield name + text
        for each in container.get("env") or ():
            value = _value(pod, container, each, sources, env)
            if value is not None:
                env[each["name"]] = value
                yield each["name"] + value

    limited(given(), "the variables")
    return env


def _value(
    pod: Json, container: Json, entry: Json, sources: Sources, env: Mapping[str, str]
) -> str | None:
    """The value of the variable; None for an optional key that does not exist."""
    source = entry.get("valueFrom")
    if not source:
        return expanded(str(entry.get("value") or ""), env)
    if "fieldRef" in source:
        return _text(field(pod, source["fieldRef"].get("fieldPath") or "", sources).encode())
    if "resourceFieldRef" in source:
        return resource_field(pod, container, source["resourceFieldRef"], sources)
    for ref, kind in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
        if ref in source:
            return _keyed(source[ref], kind, sources)
    raise LaunchError(
        CONFIG_ERROR, f"env {entry['name']}: no value from {', '.join(source)} here", permanent=True
    )


def field(pod: Json, path: str, sources: Sources) -> str:
    """One field of the pod as text. Raises LaunchError for an unsupported path."""
    meta, spec = pod["metadata"], pod.get("spec") or _NOTHING
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((meta.get(keyed[1]) or _NOTHING).get(keyed[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta.get(path.removeprefix("metadata.")) or "")
        case "metadata.labels" | "metadata.annotations":
            pairs = meta.get(path.removeprefix("metadata.")) or _NOTHING
            return "\n".join(f'{key}="{_quoted(pairs[key])}"' for key in sorted(pairs))
        case "spec.nodeName":
            return spec.get("nodeName") or sources.node_name
        case "spec.serviceAccountName":
            return spec.get("serviceAccountName") or "default"
        case "status.hostIP" | "status.hostIPs":
            return sources.host_ip
        case "status.podIP" | "status.podIPs":
            return sources.pod_ip
    raise LaunchError(CONFIG_ERROR, f"fieldPath {path!r} is not supported here", permanent=True)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_field(pod: Json, container: Json, ref: Json, sources: Sources) -> str:
    """A request or limit in units of the divisor, rounded up.

    Without a limit, the allocatable amount of the node counts; without a request, 0.
    """
    which, _, name = (ref.get("resource") or "").partition(".")
    if which not in ("limits", "requests") or not name:
        raise LaunchError(
            CONFIG_ERROR, f"resource {ref.get('resource')!r} is not supported here", permanent=True
        )
    asked = _named_container(pod, ref.get("containerName") or container["name"])
    resources = asked.get("resources") or _NOTHING
    quantity = (resources.get(which) or _NOTHING).get(name)
    if quantity is None and which == "requests":
        quantity = (resources.get("limits") or _NOTHING).get(name, "0")
    if quantity is None:
        quantity = sources.allocatable.get(name, "0")
    divisor = parse(ref.get("divisor") or "1") or parse("1")
    return str(-(-parse(quantity) // divisor))


def _named_container(pod: Json, name: str) -> Json:
    for each in containers(pod.get("spec") or _NOTHING):
        if each.get("name") == name:
            return each
    raise LaunchError(CONFIG_ERROR, f"the pod has no container {name!r}", permanent=True)


def _bulk(entry: Json, sources: Sources) -> Iterator[tuple[str, str]]:
    prefix = entry.get("prefix") or ""
    for name, kind in (("configMapRef", "configmap"), ("secretRef", "secret")):
        ref = entry.get(name)
        if ref is not None:
            for key, raw in (_entries(ref, kind, sources) or {}).items():
                yield prefix + key, _text(raw)


def _keyed(ref: Json, kind: str, sources: Sources) -> str | None:
    found = _entries(ref, kind, sources)
    if found is None:
        return None
    key = ref.get("key") or ""
    raw = found.get(key)
    if raw is None:
        if ref.get("optional"):
            return None
        raise LaunchError(CONFIG_ERROR, f"couldn't find key {key} in {kind} {ref.get('name')!r}")
    return _text(raw)


def _entries(ref: Json, kind: str, sources: Sources) -> dict[str, bytes] | None:
    found = sources.entries(kind, ref.get("name") or "")
    if found is None and not ref.get("optional"):
        raise LaunchError(CONFIG_ERROR, f'{kind} "{ref.get("name")}" not found')
    return found


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError):
        raise LaunchError(CONFIG_ERROR, "an entry is not valid base64") from None


def _text(raw: bytes) -> str:
    """The bytes as text for an environment, which cannot contain NUL or invalid UTF-8."""
    return raw.decode(errors="replace").replace("\0", "")
