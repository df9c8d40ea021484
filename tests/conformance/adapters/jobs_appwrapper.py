# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of AppWrapper."""

from __future__ import annotations

from conformance.case import Run, same
from conformance.job_kinds import IGNORED_TOO, RECONCILER_IGNORES, reconciled
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.bridge.jobs.app_wrapper import AppWrapper

APP_WRAPPER = AppWrapper()


@suite("jobs/appwrapper-TestPodSets", ignores={"expected.wantPodSets.*.template": IGNORED_TOO})
def pod_sets(run: Run) -> None:
    found = APP_WRAPPER.pod_sets(whole(run.inputs["job"]), gates_of(run))
    fields = ("name", "count", "topologyRequest")
    wanted = [{name: each.get(name) for name in fields} for each in run.expected["wantPodSets"]]
    same(wanted, [{name: each.get(name) for name in fields} for each in found])


@suite("jobs/appwrapper-TestReconciler", exercises=Exercise.PATH, ignores=RECONCILER_IGNORES)
def passes(run: Run) -> None:
    reconciled(run, APP_WRAPPER, whole(run.inputs["job"]))
