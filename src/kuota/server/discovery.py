# SPDX-License-Identifier: Apache-2.0
"""Discovery documents of groups, versions and resources, in the old and the aggregated format."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json

from .kinds import Kind, Kinds

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# The verbs of each subresource, and its kind if it differs from the parent's.
_SUBRESOURCES: dict[str, tuple[tuple[str, ...], tuple[str, str, str] | None]] = {
    "status": (("get", "patch", "update"), None),
    "scale": (("get", "patch", "update"), ("autoscaling", "v1", "Scale")),
    "log": (("get",), None),
    "exec": (("create", "get"), ("", "v1", "PodExecOptions")),
    "attach": (("create", "get"), ("", "v1", "PodAttachOptions")),
    "portforward": (("create", "get"), ("", "v1", "PodPortForwardOptions")),
    "binding": (("create",), ("", "v1", "Binding")),
    "eviction": (("create",), ("policy", "v1", "Eviction")),
    "finalize": (("update",), None),
    "token": (("create",), ("authentication.k8s.io", "v1", "TokenRequest")),
}


def subresource_verbs(name: str) -> tuple[str, ...]:
    return _SUBRESOURCES[name][0]


def wants_aggregated(accept: str) -> bool:
    wanted = {"as=APIGroupDiscoveryList", "v=v2"}
    return any(wanted <= set(_parameters(each)) for each in accept.split(","))


def _parameters(media: str) -> Iterator[str]:
    return (each.strip() for each in media.split(";"))


def aggregated(kinds: Kinds, core: bool) -> Json:
    """The aggregated response to /api or /apis."""
    items = [
        {"metadata": {"name": group} if group else {}, "versions": [*_versions(versions)]}
        for group, versions in kinds.by_group().items()
        if (group == "") == core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _versions(versions: dict[str, list[Kind]]) -> Iterator[Json]:
    for version, kinds in versions.items():
        resources = [_described(kind, version) for kind in _sorted(kinds)]
        yield {"version": version, "resources": resources, "freshness": "Current"}


def _described(kind: Kind, version: str) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    } | _nicknames(kind)
    below = [_below(kind, version, name) for name in kind.subresources]
    return entry | {"subresources": below} if below else entry


def _nicknames(kind: Kind) -> Json:
    """Short names and categories of the kind, if it has any."""
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: words for name, words in names.items() if words}


def _below(kind: Kind, version: str, name: str) -> Json:
    verbs, other = _SUBRESOURCES[name]
    group, version, kind_name = other or (kind.group, version, kind.kind)
    answer = {"group": group, "version": version, "kind": kind_name}
    return {"subresource": name, "responseKind": answer, "verbs": list(verbs)}


def versions() -> Json:
    """The response to /api in the old format."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    }


def group_list(kinds: Kinds) -> Json:
    """The response to /apis in the old format."""
    groups = [_group(name, list(found)) for name, found in kinds.by_group().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Kinds, name: str) -> Json | None:
    """The response to /apis/GROUP; None for an unknown group."""
    found = kinds.by_group().get(name) if name else None
    if found is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, list(found))


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(kinds: Kinds, group: str, version: str) -> Json | None:
    """The response to /api/v1 or /apis/GROUP/VERSION; None if it is not served."""
    found = kinds.by_group().get(group, {}).get(version)
    if found is None:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for kind in _sorted(found) for entry in _entries(kind)],
    }


def _entries(kind: Kind) -> Iterator[Json]:
    entry: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    } | _nicknames(kind)
    yield entry
    for name in kind.subresources:
        verbs, other = _SUBRESOURCES[name]
        below: Json = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": other[2] if other else kind.kind,
            "verbs": list(verbs),
        }
        yield below | ({"group": other[0], "version": other[1]} if other else {})


def _sorted(kinds: list[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.plural)
