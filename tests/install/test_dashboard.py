# SPDX-License-Identifier: Apache-2.0
"""The dashboard of an installation: absent by default, and with little power."""

from __future__ import annotations

from kuota.install.dashboard import dashboard, dashboard_rules
from kuota.install.objects import parts
from kuota.install.settings import Settings, settings

WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}


def test_it_is_installed_only_if_it_is_enabled() -> None:
    assert [] == dashboard(Settings())
    made = parts(settings({}, {"dashboard.enabled": "true"}))
    names = [each["metadata"]["name"] for each in made if each["kind"] == "Deployment"]
    assert ["kueue-controller-manager", "kueue-dashboard"] == names


def test_its_role_changes_nothing_and_reads_no_secrets_or_logs() -> None:
    rules = dashboard_rules(actions=False)
    written = [each for each in rules if WRITES & set(each["verbs"])]
    assert {"tokenreviews", "subjectaccessreviews"} == {
        name for each in written for name in each["resources"]
    }
    read = {name for each in rules for name in each["resources"]}
    assert not {"secrets", "pods/log", "configmaps", "*"} & read


def test_with_actions_it_may_patch_queues_and_workloads_and_record_events() -> None:
    found = dashboard_rules(actions=True)
    written = {
        (name, verb) for each in found for name in each["resources"] for verb in each["verbs"]
    }
    assert {("workloads", "patch"), ("clusterqueues", "patch"), ("events", "create")} <= written
    assert not {verb for _, verb in written} & {"delete", "update", "*"}


def test_its_pod_runs_only_the_part_dashboard() -> None:
    def arguments(chosen: Settings) -> list[str]:
        made = next(each for each in dashboard(chosen) if each["kind"] == "Deployment")
        found: list[str] = made["spec"]["template"]["spec"]["containers"][0]["args"]
        return found

    assert "--parts=dashboard" in arguments(Settings(dashboard=True))
    assert "--dashboard-actions" not in arguments(Settings(dashboard=True))
    assert "--dashboard-actions" in arguments(Settings(dashboard=True, dashboard_actions=True))
