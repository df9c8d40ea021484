# SPDX-License-Identifier: Apache-2.0
"""The only caches of Nodes and Pods in a process. Both are empty until something needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kuota.api.base import Json
from kuota.api.core import Node, is_terminated
from kuota.api.rules.report import child, text
from kuota.api.topology_codec import HOSTNAME
from kuota.bridge.cached import cached_node, reduced_pod
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.workload_pods import chain_of
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import trimmed
from kuota.kube.lazy_informer import LazyInformer
from kuota.kube.resources import NODES, PODS

POD: GroupKind = ("", "Pod")
ON_NODE = "node"
"""The index of pods by the name of the node that they are bound to."""
FOR_NODE = "assigned node"
"""The index of pods by the name of the node that their node selector names."""
IN_CHAIN = "chain"
"""The index of pods by their Workload, or by the first slice of their elastic job."""


def node_informer(client: Client, clock: Clock) -> LazyInformer[Node]:
    """Return an informer of nodes, without what scheduling does not depend on."""
    return LazyInformer(client, NODES, decode=cached_node, clock=clock)


def pod_informer(client: Client, clock: Clock, kinds: Iterable[JobKind]) -> LazyInformer[Json]:
    """Return an informer of pods. Those that no controller reads are reduced and compressed."""
    kind = next((each for each in kinds if each.group_kind == POD), None)
    rarely_read = kind.rarely_read if kind is not None else lambda pod: True
    return LazyInformer(
        client,
        PODS,
        decode=_shrinking(kind.cached if kind is not None else reduced_pod),
        # All pods of a Workload are read when one of them changes.
        packs=lambda pod: rarely_read(pod) and (is_terminated(pod) or chain_of(pod) is None),
        indexers={ON_NODE: _node, FOR_NODE: _hostname, IN_CHAIN: _chain},
        clock=clock,
    )


def _shrinking(cached: Callable[[Json], Json]) -> Callable[[Json], Json]:
    """Return a decoder that also reduces its argument, which is what the cache compresses."""

    def decode(pod: Json) -> Json:
        kept = cached(trimmed(pod))
        if kept is not pod:
            pod.clear()
            pod.update(kept)
        return pod

    return decode


def _node(pod: Json) -> Iterator[str]:
    name = text(child(pod, "spec").get("nodeName"))
    if name:
        yield name


def _hostname(pod: Json) -> Iterator[str]:
    name = text(child(pod, "spec", "nodeSelector").get(HOSTNAME))
    if name:
        yield name


def _chain(pod: Json) -> Iterator[str]:
    chain = chain_of(pod)
    if chain is not None:
        yield str(chain)
