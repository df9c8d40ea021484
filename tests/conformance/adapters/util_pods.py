# SPDX-License-Identifier: Apache-2.0
"""Feeds the suites on pods, pod sets and what an admission puts into them."""

from __future__ import annotations

from msgspec import convert, to_builtins

from conformance.case import Difference, Json, Run, check, same
from conformance.registry import suite
from kuota.api.core import Pod, PodSpec
from kuota.api.equivalence import equivalent
from kuota.api.kueue import ResourceFlavor
from kuota.api.pods import (
    LabelError,
    gated,
    group_name,
    has_gate,
    is_terminated,
    label_number,
    role_hash,
    shape,
    ungated,
)
from kuota.api.podset import (
    FlavorMissing,
    Injection,
    MergeConflict,
    injection,
    labelled,
    merged,
    restored,
)
from kuota.api.workload import PodSet, PodSetAssignment


def _pod(record: Json) -> Pod:
    return convert(record, Pod)


@suite("util/pod-TestHasGate")
def gate_present(run: Run) -> None:
    same(run.expected["want"], has_gate(_pod(run.inputs["pod"]).spec, run.inputs["gateName"]))


@suite("util/pod-TestGate", "util/pod-TestUngate")
def gate_change(run: Run) -> None:
    spec = _pod(run.inputs["pod"]).spec
    change = gated if run.suite.endswith("TestGate") else ungated
    after = change(spec, run.inputs["gateName"])
    same(run.expected["want"], after is not spec)
    wanted = _pod(run.expected["wantPod"]).spec.scheduling_gates or []
    same(_names(wanted), _names(after.scheduling_gates or []))


def _names(gates: list[Json]) -> list[str]:
    return sorted(gate["name"] for gate in gates)


@suite("util/pod-TestIsTerminated")
def terminated(run: Run) -> None:
    same(run.expected["wantTerminated"], is_terminated(_pod(run.inputs["pod"])))


@suite("util/pod-TestGetPodGroupName")
def pod_group(run: Run) -> None:
    heeded = run.gates.get("WorkloadIdentifierAnnotations", True)
    meta = _pod(run.inputs["pod"]).metadata
    same(run.expected["want"], group_name(meta, annotations=heeded))


@suite("util/pod-TestReadUIntFromLabel")
def label_value(run: Run) -> None:
    meta = _pod(run.inputs["obj"]).metadata
    try:
        value = label_number(meta, run.inputs["label"], run.inputs["max"])
    except LabelError as error:
        check(bool(run.expected["wantErr"]), f"unexpected {error}")
        return
    check(not run.expected["wantErr"], "want an error, got a number")
    same(run.expected["wantVal"], value)


@suite("util/pod-TestGenerateRoleHash")
def pod_role(run: Run) -> None:
    found = role_hash(convert(run.inputs["podSpec"], PodSpec))
    same(run.expected["wantBaseHash"], found == run.inputs["shared"]["baseHash"])


@suite("util/pod-TestSpecShape")
def spec_shape(run: Run) -> None:
    found = shape(convert(run.inputs["podSpec"], PodSpec))
    same(run.expected["wantPresent"], "resources" in found)
    same(run.expected["wantResources"], found.get("resources"))


@suite("util/podset-TestAddOrUpdateLabel")
def add_label(run: Run) -> None:
    before = convert(run.inputs["info"], Injection)
    after = labelled(before, run.inputs["k"], run.inputs["v"])
    same(run.expected["wantInfo"], to_builtins(after))


@suite("util/podset-TestFromAssignment")
def from_assignment(run: Run) -> None:
    flavors = [convert(each, ResourceFlavor) for each in run.inputs.get("flavors") or ()]
    try:
        found = injection(
            convert(run.inputs["assignment"], PodSetAssignment),
            PodSet(count=run.inputs["defaultCount"]),
            {each.metadata.name: each for each in flavors},
            topology=run.gates.get("TopologyAwareScheduling", True),
        )
    except FlavorMissing as error:
        if not run.expected["wantError"]:
            raise Difference(f"unexpected {error}") from error
        return
    check(not run.expected["wantError"], "want an error, got an injection")
    same(run.expected["wantInfo"], to_builtins(found))


@suite("util/podset-TestMergeRestore")
def merge_restore(run: Run) -> None:
    original = convert(run.inputs["podSet"], PodSet).template
    try:
        started = merged(original, convert(run.inputs["info"], Injection))
    except MergeConflict as error:
        if not run.expected["wantError"]:
            raise Difference(f"unexpected {error}") from error
        return
    check(not run.expected["wantError"], "want an error, got a template")
    wanted = convert(run.expected["wantPodSet"], PodSet).template
    same(to_builtins(wanted), to_builtins(started))
    stopped = restored(started, original)
    same(run.expected["wantRestoreChanges"], stopped is not started)
    same(to_builtins(original), to_builtins(stopped))


@suite("util/equality-TestComparePodSetSlices")
def same_pod_sets(run: Run) -> None:
    found = equivalent(
        run.inputs.get("a"),
        run.inputs.get("b"),
        ignore_tolerations=run.inputs.get("ignoreTolerations", False),
    )
    same(run.expected["wantEquivalent"], found)
