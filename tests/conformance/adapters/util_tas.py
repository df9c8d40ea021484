# SPDX-License-Identifier: Apache-2.0
"""Suites of util/tas that state how topology assignments are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.case import Json, Run, same
from conformance.recorder import convert
from conformance.registry import suite
from kuota.api import topology_codec as codec
from kuota.api.workload import Admission, PodSetAssignment, TopologyAssignment


def _stored(value: Json) -> TopologyAssignment:
    return convert(value, TopologyAssignment)


def _domains(values: list[Json] | None) -> list[codec.AssignedDomain]:
    return [
        codec.AssignedDomain(each.get("values") or [], each.get("count", 0))
        for each in values or ()
    ]


def _plain(assignment: TopologyAssignment) -> Json:
    domains = [{"values": d.values, "count": d.count} for d in codec.expand(assignment)]
    return {"levels": assignment.levels, "domains": domains}


@suite("util/tas-TestInternalFromV1Beta2", "util/tas-TestInternalSeqFromV1Beta2")
def expansion(run: Run) -> None:
    same(run.expected.get("internal"), _plain(_stored(run.inputs["v1beta2"])))


@suite("util/tas-TestV1Beta2FromInternal")
def compaction(run: Run) -> None:
    same(run.expected.get("v1beta2"), _compacted(run))


@suite("util/tas-TestCompactTopologyAssignmentEncodingWithHostnamePrefixRuns")
def compaction_by_prefix_runs(run: Run) -> None:
    """Upstream calls the encoder by runs itself, without asking which encoding is smaller."""
    internal = run.inputs["internal"]
    domains = _domains(internal.get("domains"))
    actual = codec.split_by_hostname(internal["levels"], domains)
    same(run.expected.get("want"), msgspec.to_builtins(actual))


def _compacted(run: Run) -> Any:
    internal = run.inputs["internal"]
    gate = run.gates.get("TASAssignmentsEncodingByHostnamePrefix", True)
    domains = _domains(internal.get("domains"))
    return msgspec.to_builtins(codec.compact(internal.get("levels") or [], domains, gate))


@suite("util/tas-TestReusableHostnamePrefixKeys")
def prefix_keys(run: Run) -> None:
    names = [domain.values[-1] for domain in _domains(run.inputs.get("domains"))]
    same(run.expected.get("want"), codec.prefix_keys(names))


@suite("util/tas-TestCompactDomainRuns")
def domain_runs(run: Run) -> None:
    domains = _domains(run.inputs.get("domains"))
    found = codec.runs(domains, run.inputs.get("prefixKeys") or [])
    same(run.expected.get("want"), [len(each) for each in found])


@suite("util/tas-TestChunkCount")
def chunk_count(run: Run) -> None:
    pieces = codec.chunks(range(run.inputs.get("length", 0)), run.inputs["chunkSize"])
    same(run.expected.get("want"), len(pieces))


@suite("util/tas-TestHasNodeInPodSetAssignment")
def node_in_pod_set(run: Run) -> None:
    found = run.inputs.get("psa")
    assignment = convert(found, PodSetAssignment) if found else None
    same(run.expected.get("want"), codec.on_node(assignment, run.inputs["nodeName"]))


@suite("util/tas-TestHasTASAssignmentOnNode")
def workload_on_node(run: Run) -> None:
    admission = convert(run.inputs.get("admission") or {}, Admission)
    assignments = admission.pod_set_assignments or ()
    node = run.inputs["nodeName"]
    same(run.expected.get("want"), any(codec.on_node(each, node) for each in assignments))
