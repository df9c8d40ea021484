# SPDX-License-Identifier: Apache-2.0
"""Which nodes the constraints of a pod exclude, and which ones it prefers.

Constraints apply only if the leaves are nodes. The result for all nodes is kept, and a change of a
node reevaluates that node only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kuota.api.core import NodeSelector, PodSpec, PreferredSchedulingTerm, Taint, Toleration
from kuota.api.match import untolerated
from kuota.api.node_match import (
    check_selector,
    check_terms,
    matches_terms,
    preference,
    selected,
)
from kuota.api.podset import Injection, joined
from kuota.api.workload import PodSetUpdate
from kuota.engine.model import Node, Struct

from .tree import Domain, Leaf, TopologyTree

NODE_SELECTOR = "nodeSelector"
AFFINITY = "affinity"
TAINT = "taint"


class NodeConstraints(Struct):
    """The constraints of a pod on nodes. Preferred terms are empty unless they are respected."""

    selector: dict[str, str] = {}
    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class NodeExclusion(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Why a node is excluded. `detail` names the taint."""

    by: str
    detail: str = ""


def constraints(
    spec: PodSpec,
    updates: Sequence[PodSetUpdate] = (),
    tolerations: Iterable[Toleration] = (),
    *,
    prefer: bool = False,
    by_host: bool = True,
) -> NodeConstraints:
    """Return the constraints of a pod with updates of admission checks and of its flavor.

    Raises MergeConflict if an update contradicts the pod, SelectorError for an invalid affinity or,
    if leaves are nodes (`by_host`), an invalid node selector.
    """
    own = Injection(node_selector=spec.node_selector, tolerations=spec.tolerations)
    for update in updates:
        own = joined(own, update)
    if by_host and own.node_selector:
        check_selector(own.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    wanted = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    preferred = tuple(wanted or ()) if prefer else ()
    check_terms((required.node_selector_terms or ()) if required else ())
    check_terms(each.preference for each in preferred)
    return NodeConstraints(
        selector=own.node_selector or {},
        required=required,
        preferred=preferred,
        tolerations=(*(own.tolerations or ()), *tolerations),
    )


class NodeFilter:
    """The leaves that the constraints exclude, and the scores of those that they prefer."""

    def __init__(self, tree: TopologyTree, wanted: NodeConstraints) -> None:
        self._wanted = wanted
        self._applies = tree.by_host
        self.excluded: dict[Leaf, NodeExclusion] = {}
        self.scores: dict[Leaf, int] = {}
        for leaf in tree.leaves.values():
            self.changed(leaf)

    def changed(self, leaf: Leaf) -> None:
        """Reevaluate a leaf."""
        if not self._applies:
            return
        self.removed(leaf)
        node = leaf.node
        reason = excluded(node, self._wanted)
        if reason is not None:
            self.excluded[leaf] = reason
        elif self._wanted.preferred:
            score = preference(self._wanted.preferred, node.name, node.labels)
            if score:
                self.scores[leaf] = score

    def removed(self, domain: Domain) -> None:
        """Forget a leaf."""
        if isinstance(domain, Leaf):
            self.excluded.pop(domain, None)
            self.scores.pop(domain, None)


def excluded(node: Node, wanted: NodeConstraints) -> NodeExclusion | None:
    """Return the first reason why pods with these constraints cannot use the node."""
    taint = untolerated(node.taints, wanted.tolerations) if node.taints else None
    if taint is not None:
        return NodeExclusion(TAINT, _text(taint))
    if not selected(wanted.selector, node.labels):
        return NodeExclusion(NODE_SELECTOR)
    if wanted.required is not None and not matches_terms(wanted.required, node.name, node.labels):
        return NodeExclusion(AFFINITY)
    return None


def _text(taint: Taint) -> str:
    """Return the taint as kubectl prints it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
