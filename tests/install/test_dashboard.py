# SPDX-License-Identifier: Apache-2.0
"""The dashboard of an installation: absent by default, and with little power."""

from __future__ import annotations

from typing import Any

from kuota.install.dashboard import dashboard, dashboard_rules
from kuota.install.dashboard_policy import dashboard_policy
from kuota.install.objects import parts
from kuota.install.rbac import job_plurals
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


def _granted(**chosen: bool) -> set[tuple[str, str]]:
    found = dashboard_rules(**chosen)
    return {(name, verb) for each in found for name in each["resources"] for verb in each["verbs"]}


def test_users_with_a_token_act_themselves_and_the_dashboard_only_records_it() -> None:
    assert {("events", "create")} == _granted(actions=True) - _granted(actions=False)


def test_for_users_behind_a_proxy_it_reads_logs_and_with_actions_it_patches() -> None:
    read = _granted(actions=False, proxy=True) - _granted(actions=False)
    assert {("pods/log", "get"), ("workloads/explanation", "get"), ("events", "list")} == read
    acting = _granted(actions=True, proxy=True) - _granted(actions=True) - read
    kinds = {"clusterqueues", "localqueues", "workloads"}
    jobs = {each for group in job_plurals().values() for each in group}
    assert {(each, "patch") for each in kinds | jobs} == acting
    granted = _granted(actions=True, proxy=True)
    assert not {verb for _, verb in granted} & {"delete", "update", "impersonate", "*"}


def test_the_role_of_an_installation_depends_on_its_settings() -> None:
    def verbs(**chosen: Any) -> set[str]:
        made = dashboard(Settings(dashboard=True, **chosen))
        role = next(each for each in made if each["kind"] == "ClusterRole")
        return {verb for rule in role["rules"] for verb in rule["verbs"]}

    assert "patch" not in verbs()
    assert "patch" not in verbs(dashboard_actions=True)
    assert "patch" not in verbs(dashboard_proxy_secret="ca")
    assert "patch" in verbs(dashboard_actions=True, dashboard_proxy_secret="ca")


def test_a_policy_applies_to_everything_that_the_role_may_patch() -> None:
    def policy(**chosen: Any) -> list[Any]:
        return dashboard_policy(Settings(dashboard=True, namespace="own", **chosen))

    assert [] == policy() + policy(dashboard_actions=True) + policy(dashboard_proxy_secret="ca")
    made, binding = policy(dashboard_actions=True, dashboard_proxy_secret="ca")
    limited = {
        (group, name)
        for rule in made["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    granted = {
        (group, name)
        for rule in dashboard_rules(actions=True, proxy=True)
        for group in rule["apiGroups"]
        for name in rule["resources"]
        if "patch" in rule["verbs"]
    }
    assert granted == limited
    assert (made["metadata"]["name"], ["Deny"], "Fail") == (
        binding["spec"]["policyName"],
        binding["spec"]["validationActions"],
        made["spec"]["failurePolicy"],
    )
    (condition,) = made["spec"]["matchConditions"]
    assert "'system:serviceaccount:own:kueue-dashboard'" in condition["expression"]


def test_the_authority_of_proxies_is_mounted_without_its_key() -> None:
    chosen = Settings(
        dashboard=True, dashboard_proxy_secret="ca", dashboard_proxy_names="front,back"
    )
    made = next(each for each in dashboard(chosen) if each["kind"] == "Deployment")
    pod = made["spec"]["template"]["spec"]
    volume = next(each for each in pod["volumes"] if each["name"] == "proxy-ca")
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    assert {"secretName": "ca", "items": items} == volume["secret"]
    arguments = pod["containers"][0]["args"]
    assert "--dashboard-proxy-ca=/etc/kuota/dashboard/proxy/ca.crt" in arguments
    assert "--dashboard-proxy-names=front,back" in arguments


def test_its_pod_runs_only_the_part_dashboard() -> None:
    def arguments(chosen: Settings) -> list[str]:
        made = next(each for each in dashboard(chosen) if each["kind"] == "Deployment")
        found: list[str] = made["spec"]["template"]["spec"]["containers"][0]["args"]
        return found

    assert "--parts=dashboard" in arguments(Settings(dashboard=True))
    assert "--dashboard-actions" not in arguments(Settings(dashboard=True))
    assert "--dashboard-actions" in arguments(Settings(dashboard=True, dashboard_actions=True))
