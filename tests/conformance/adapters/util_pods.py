# SPDX-License-Identifier: Apache-2.0
"""Suites on pods, pod sets, and the changes that an admission makes to them."""

from __future__ import annotations

from msgspec import to_builtins

from conformance import world
from conformance.case import Run, refused, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api.core import is_terminated
from kuota.api.gates import Gate
from kuota.api.kueue import ResourceFlavor
from kuota.api.podset import (
    FlavorMissing,
    Injection,
    MergeConflict,
    equivalent,
    injection,
    labelled,
)
from kuota.api.rules.pod import group
from kuota.api.workload import PodSet, PodSetAssignment
from kuota.bridge.jobs.template_kind import merged_template, restored_template


@suite("util/pod-TestIsTerminated")
def terminated(run: Run) -> None:
    same(run.expected["wantTerminated"], is_terminated(whole(run.inputs["pod"])))


@suite("util/pod-TestGetPodGroupName")
def pod_group(run: Run) -> None:
    name, _ = group(whole(run.inputs["pod"]), world.gates_of(run))
    same(run.expected["want"], name)


@suite("util/podset-TestAddOrUpdateLabel")
def add_label(run: Run) -> None:
    before = convert(run.inputs["info"], Injection)
    after = labelled(before, run.inputs["k"], run.inputs["v"])
    same(run.expected["wantInfo"], to_builtins(after))


@suite("util/podset-TestFromAssignment")
def from_assignment(run: Run) -> None:
    flavors = [convert(each, ResourceFlavor) for each in run.inputs.get("flavors") or ()]
    found, error = Injection(), None
    try:
        found = injection(
            convert(run.inputs["assignment"], PodSetAssignment),
            PodSet(count=run.inputs["defaultCount"]),
            {each.metadata.name: each for each in flavors},
            topology=world.gates_of(run).on(Gate.TopologyAwareScheduling),
        )
    except FlavorMissing as missing:
        error = missing
    refused(run.expected["wantError"], error, reason="NotFound" if error else "")
    same(run.expected["wantInfo"], to_builtins(found))


@suite("util/podset-TestMergeRestore")
def merge_restore(run: Run) -> None:
    given = whole(run.inputs["podSet"])
    original = started = given["template"]
    wanted, changes = run.expected["wantPodSet"], run.expected["wantRestoreChanges"]
    error = None
    try:
        elastic = world.gates_of(run).on(Gate.ElasticJobsViaWorkloadSlices)
        added = convert(run.inputs["info"], Injection)
        started = merged_template(original, added, elastic=elastic)
    except MergeConflict as conflict:
        error = conflict
    refused(run.expected["wantError"], error)
    if error is None:
        same(wanted, given | {"template": started})
    stopped = restored_template(started, original)
    same(changes, stopped != started)
    same(original, stopped)


@suite("util/equality-TestComparePodSetSlices")
def same_pod_sets(run: Run) -> None:
    found = equivalent(
        whole(run.inputs.get("a")),
        whole(run.inputs.get("b")),
        ignore_tolerations=run.inputs.get("ignoreTolerations", False),
    )
    same(run.expected["wantEquivalent"], found)
