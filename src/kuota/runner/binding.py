# SPDX-License-Identifier: Apache-2.0
"""Selects the node of each pending pod. Pure.

A node must match the selector, the node affinity and the pod affinity, its taints must be
tolerated, and it must have enough free resources. Among suitable nodes, the preferred one wins,
then the emptiest. Pods with a higher priority come first, then older ones; a pod that fits nowhere
does not block others. Only required affinity between pods counts, including the anti-affinity of
pods that are already on the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kuota.api.base import Json, Key, LabelSelector
from kuota.api.core import NodeAffinity, NodeSelectorTerm, PodSpec, Taint, Toleration
from kuota.api.match import SelectorError, check_requirement, holds, matches, tolerates, untolerated
from kuota.api.resources import Nanos, nanos, pod_requests

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ONE = 10**9
"""One pod, in nano-units: the resource `pods` of a node is treated like any other."""
_TOO_BIG = "No node has that much, even when it is empty: ask for less."
Labels = Mapping[str, str]


class SchedulableNode(msgspec.Struct, frozen=True):
    """The properties of a node that matter for binding."""

    name: str
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    allocatable: dict[str, int] = {}
    unschedulable: bool = False


class BoundPod(msgspec.Struct, frozen=True):
    """A pod that is bound to a node and has not ended."""

    node: str
    pod: Json
    requests: dict[str, int] = {}


class Bind(msgspec.Struct, frozen=True):
    key: Key
    node: str


class Unschedulable(msgspec.Struct, frozen=True):
    key: Key
    message: str


Decision = Bind | Unschedulable


def offer(node: Json) -> SchedulableNode:
    """The schedulable node that a Node object describes."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return SchedulableNode(
        name=meta["name"],
        labels=dict(meta.get("labels") or {}),
        taints=msgspec.convert(spec.get("taints") or [], list[Taint]),
        allocatable=nanos(status.get("allocatable") or {}),
        unschedulable=bool(spec.get("unschedulable")),
    )


def placed(pod: Json) -> BoundPod:
    """A bound pod and its requests."""
    return BoundPod(pod["spec"]["nodeName"], pod, requests_of(pod["spec"]))


def requests_of(spec: Json) -> Nanos:
    """The requests of the pod, including one of `pods`. A limit counts if there is no request."""
    full = {
        **spec,
        **{
            field: [_requesting(each) for each in spec.get(field) or ()]
            for field in ("containers", "initContainers")
        },
    }
    asked = pod_requests(msgspec.convert(full, PodSpec))
    return {**asked, "pods": _ONE}


def _requesting(container: Json) -> Json:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


class Candidate:
    """A pending pod with its parsed requirements."""

    def __init__(self, pod: Json) -> None:
        spec = pod["spec"]
        self.pod = pod
        self.uid: str = pod["metadata"].get("uid") or ""
        self.requests = requests_of(spec)
        self.reported = ""
        """The last reported reason for waiting."""
        self._selector: dict[str, str] = spec.get("nodeSelector") or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        self._affinity = msgspec.convert(affinity or {}, NodeAffinity)
        self._tolerations = msgspec.convert(spec.get("tolerations") or [], list[Toleration])

    def refusals(self, node: SchedulableNode, used: Mapping[str, int]) -> list[str]:
        """Why the node cannot run the pod: insufficient resources, or the first other reason."""
        bar = self.bar(node)
        return [bar] if bar else self.lacks(node, used)

    def bar(self, node: SchedulableNode) -> str:
        """Why the node cannot run the pod regardless of resources; "" if it can."""
        if node.unschedulable and not self._tolerates_unschedulable():
            return "node(s) were unschedulable"
        if not self._selected(node):
            return "node(s) didn't match Pod's node affinity/selector"
        taint = untolerated(node.taints, self._tolerations)
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return ""

    def lacks(self, node: SchedulableNode, used: Mapping[str, int]) -> list[str]:
        """The resources of which the node has too little, given its usage."""
        return [
            "Too many pods" if name == "pods" else f"Insufficient {name}"
            for name, amount in sorted(self.requests.items())
            if amount and amount > node.allocatable.get(name, 0) - used.get(name, 0)
        ]

    def rank(self, node: SchedulableNode, used: Mapping[str, int]) -> tuple[int, int, float]:
        """The rank of a node, lower is better: preferences, soft taints, then utilization."""
        preferred = sum(
            each.weight
            for each in self._affinity.preferred_during_scheduling_ignored_during_execution or ()
            if _holds(each.preference, node)
        )
        soft = sum(
            taint.effect == "PreferNoSchedule"
            and not any(tolerates(each, taint) for each in self._tolerations)
            for taint in node.taints
        )
        fullest = max(
            (
                (used.get(name, 0) + amount) / node.allocatable[name]
                for name, amount in self.requests.items()
                if node.allocatable.get(name)
            ),
            default=0.0,
        )
        return -preferred, soft, fullest

    def _tolerates_unschedulable(self) -> bool:
        taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
        return any(tolerates(each, taint) for each in self._tolerations)

    def _selected(self, node: SchedulableNode) -> bool:
        if any(node.labels.get(key) != value for key, value in self._selector.items()):
            return False
        required = self._affinity.required_during_scheduling_ignored_during_execution
        if required is None:
            return True
        return any(_holds(term, node) for term in required.node_selector_terms or ())


def decisions(
    pending: Iterable[Candidate], offers: Sequence[SchedulableNode], there: Iterable[BoundPod]
) -> list[Decision]:
    """One decision per pending pod. Earlier pods reserve resources before later ones."""
    around = list(there)
    used: dict[str, Counter[str]] = {each.name: Counter() for each in offers}
    for each in around:
        used.setdefault(each.node, Counter()).update(each.requests)
    made: list[Decision] = []
    for waiting in sorted(pending, key=lambda each: _turn(each.pod)):
        decision = _decision(waiting, offers, used, around)
        made.append(decision)
        if isinstance(decision, Bind):
            around.append(BoundPod(decision.node, waiting.pod, waiting.requests))
            used[decision.node].update(waiting.requests)
    return made


def _turn(pod: Json) -> tuple[int, str, str, str]:
    meta = pod["metadata"]
    priority = (pod.get("spec") or {}).get("priority") or 0
    created = meta.get("creationTimestamp") or ""
    return -priority, created, meta.get("namespace") or "", meta["name"]


def _decision(
    waiting: Candidate,
    offers: Sequence[SchedulableNode],
    used: Mapping[str, Counter[str]],
    around: Sequence[BoundPod],
) -> Decision:
    meta = waiting.pod["metadata"]
    key = Key(meta.get("namespace") or "", meta["name"])
    labels_of = {each.name: each.labels for each in offers}
    reasons: Counter[str] = Counter()
    takers: list[SchedulableNode] = []
    for each in offers:
        refusals = waiting.refusals(each, used[each.name])
        if not refusals:
            apart = _affinity_refusal(waiting.pod, each.labels, labels_of, around)
            refusals = [apart] if apart else []
        reasons.update(refusals)
        if not refusals:
            takers.append(each)
    if takers:
        best = min(takers, key=lambda each: (*waiting.rank(each, used[each.name]), each.name))
        return Bind(key, best.name)
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    words = f"0/{len(offers)} nodes are available: {why or 'there are none'}."
    return Unschedulable(key, f"{words} {_TOO_BIG}" if _too_big(waiting, offers) else words)


def _too_big(waiting: Candidate, offers: Sequence[SchedulableNode]) -> bool:
    """Whether the pod can never fit: even when empty, all suitable nodes are too small."""
    takers = [each for each in offers if not waiting.bar(each)]
    return bool(takers) and all(waiting.lacks(each, {}) for each in takers)


def _holds(term: NodeSelectorTerm, node: SchedulableNode) -> bool:
    """Whether the node satisfies the term. An empty or invalid term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    try:
        for each in (*(term.match_expressions or ()), *(term.match_fields or ())):
            check_requirement(each)
    except SelectorError:
        return False
    return all(holds(each, node.labels) for each in term.match_expressions or ()) and all(
        holds(each, fields) for each in term.match_fields or ()
    )


def _affinity_refusal(
    pod: Json, node: Labels, labels_of: Mapping[str, Labels], around: Sequence[BoundPod]
) -> str:
    """Why pod affinity forbids a node with these labels; "" if it does not."""
    for term in _terms(pod, "podAntiAffinity"):
        if any(_near(term, pod, each, node, labels_of) for each in around):
            return "node(s) didn't match pod anti-affinity rules"
    for term in _terms(pod, "podAffinity"):
        if any(_near(term, pod, each, node, labels_of) for each in around):
            continue
        # The first pod of a group with affinity to itself may go anywhere.
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
    term: Json, owner: Json, other: BoundPod, node: Labels, labels_of: Mapping[str, Labels]
) -> bool:
    return _chosen(term, owner, other.pod) and _same_place(term, other, node, labels_of)


def _same_place(term: Json, other: BoundPod, node: Labels, labels_of: Mapping[str, Labels]) -> bool:
    key = term.get("topologyKey") or ""
    place = node.get(key)
    return place is not None and labels_of.get(other.node, {}).get(key) == place


def _chosen(term: Json, owner: Json, other: Json) -> bool:
    """Whether the term of `owner` selects the other pod."""
    home = owner["metadata"].get("namespace") or ""
    if (other["metadata"].get("namespace") or "") not in (term.get("namespaces") or [home]):
        return False
    try:
        selector = msgspec.convert(term.get("labelSelector"), LabelSelector | None)
        return matches(selector, other["metadata"].get("labels"))
    except (msgspec.ValidationError, SelectorError):
        return False
