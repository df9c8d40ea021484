# SPDX-License-Identifier: Apache-2.0
"""Pods that want to be near other pods, or far from them. Pure.

Only what is required decides; a pod that others on the node do not want near them stays away too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.match import SelectorError, matches

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Labels = Mapping[str, str]


class Neighbour(Protocol):
    """A pod that has a place."""

    @property
    def node(self) -> str: ...
    @property
    def pod(self) -> Json: ...


def affinity_refusal(
    pod: Json, node: Labels, labels_of: Mapping[str, Labels], around: Sequence[Neighbour]
) -> str:
    """Why the pod cannot be on a node with these labels for its neighbours' sake, "" if it can."""
    for term in _terms(pod, "podAntiAffinity"):
        if any(_near(term, pod, each, node, labels_of) for each in around):
            return "node(s) didn't match pod anti-affinity rules"
    for term in _terms(pod, "podAffinity"):
        if any(_near(term, pod, each, node, labels_of) for each in around):
            continue
        # The first of a group that wants to be together may go anywhere.
        first = not any(_chosen(term, pod, each.pod) for each in around)
        if not (first and _chosen(term, pod, pod) and term.get("topologyKey") in node):
            return "node(s) didn't match pod affinity rules"
    for each in around:
        for term in _terms(each.pod, "podAntiAffinity"):
            if _chosen(term, each.pod, pod) and _same_place(term, each, node, labels_of):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def _terms(pod: Json, kind: str) -> Iterator[Json]:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    yield from (affinity.get(kind) or {}).get(_REQUIRED) or ()


def _near(
    term: Json, owner: Json, other: Neighbour, node: Labels, labels_of: Mapping[str, Labels]
) -> bool:
    return _chosen(term, owner, other.pod) and _same_place(term, other, node, labels_of)


def _same_place(
    term: Json, other: Neighbour, node: Labels, labels_of: Mapping[str, Labels]
) -> bool:
    key = term.get("topologyKey") or ""
    place = node.get(key)
    return place is not None and labels_of.get(other.node, {}).get(key) == place


def _chosen(term: Json, owner: Json, other: Json) -> bool:
    """Whether the term of `owner` speaks of the other pod."""
    home = owner["metadata"].get("namespace") or ""
    if (other["metadata"].get("namespace") or "") not in (term.get("namespaces") or [home]):
        return False
    try:
        selector = msgspec.convert(term.get("labelSelector"), LabelSelector | None)
        return matches(selector, other["metadata"].get("labels"))
    except (msgspec.ValidationError, SelectorError):
        return False
