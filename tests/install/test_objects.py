# SPDX-License-Identifier: Apache-2.0
"""The objects of an installation: complete, with Kueue's names and minimal permissions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from kuota.api.base import Json
from kuota.api.config.load import checked
from kuota.api.crds import KINDS
from kuota.bridge.jobs.kind import JobKind, referred
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.control.checks.multikueue.objects import CLUSTER_PROFILES
from kuota.controller import history as history_part
from kuota.install.configuration import CONFIG, DEFAULT_KINDS, configuration
from kuota.install.deployment import DIGEST, SECRET
from kuota.install.objects import definitions, hooks, objects, parts, resource_of
from kuota.install.rbac import history_roles
from kuota.install.settings import CONTROLLER, NAMESPACE, Settings, Unusable, settings
from kuota.kube.resources import ALL, key_of


def named(kind: str, name: str, chosen: Settings | None = None) -> Json:
    (found,) = (
        each
        for each in objects(chosen or Settings())
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def kinds(chosen: Settings) -> set[str]:
    return {each["kind"] for each in objects(chosen)}


def texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    else:
        yield str(value)


def test_everything_that_an_installation_needs_is_there() -> None:
    assert {
        *("CustomResourceDefinition", "Namespace", "ServiceAccount", "Secret", "ConfigMap"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "Deployment"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService"),
        *("FlowSchema", "PriorityLevelConfiguration", "PodDisruptionBudget", "NetworkPolicy"),
    } == kinds(Settings())
    assert "ServiceMonitor" in kinds(Settings(service_monitor=True))
    assert len(KINDS) == len(definitions(Settings()))


def test_no_two_objects_are_one_and_each_has_a_place() -> None:
    made = objects(Settings(service_monitor=True))
    assert len(made) == len({(resource_of(each), key_of(each)) for each in made})
    for each in made:
        assert resource_of(each).api_version == each["apiVersion"]
        assert resource_of(each).namespaced == ("namespace" in each["metadata"])


def test_what_asks_the_controller_comes_last() -> None:
    chosen = Settings()
    assert [*definitions(chosen), *parts(chosen), *hooks(chosen)] == objects(chosen)
    assert "Deployment" not in {each["kind"] for each in hooks(chosen)}


def test_names_are_those_that_an_image_of_kueue_would_find() -> None:
    assert ("kueue-system", "kueue-controller-manager") == (NAMESPACE, CONTROLLER)
    for kind, name in (
        ("Deployment", "kueue-controller-manager"),
        ("Service", "kueue-webhook-service"),
        ("Secret", "kueue-webhook-server-cert"),
        ("ConfigMap", "kueue-manager-config"),
        ("ClusterRole", "kueue-batch-admin-role"),
        ("ClusterRole", "kueue-batch-user-role"),
        ("ClusterRole", "kueue-workload-editor-role"),
        ("ClusterRole", "kueue-rayjob-viewer-role"),
        ("MutatingWebhookConfiguration", "kueue-mutating-webhook-configuration"),
        ("ValidatingWebhookConfiguration", "kueue-validating-webhook-configuration"),
    ):
        assert name == named(kind, name)["metadata"]["name"]


def test_another_namespace_leaves_nothing_in_the_usual_one() -> None:
    made = objects(Settings(namespace="elsewhere", service_monitor=True))
    assert "kueue-system" not in set(texts(made))


def test_the_pods_may_run_where_pods_are_restricted() -> None:
    pod = named("Deployment", CONTROLLER)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} == pod[
        "securityContext"
    ]
    assert {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    } == container["securityContext"]
    assert {"livenessProbe", "readinessProbe", "resources"} <= container.keys()


def _of_history(settings: Settings) -> dict[str, Json]:
    names = {(each["kind"], each["metadata"]["name"]) for each in objects(Settings())}
    found = [e for e in objects(settings) if (e["kind"], e["metadata"]["name"]) not in names]
    return {each["kind"]: each for each in found}


def test_the_history_has_a_volume_or_a_database() -> None:
    assert {} == _of_history(Settings())
    on_volume = _of_history(Settings(history=True, history_size="5Gi"))
    claim = on_volume["PersistentVolumeClaim"]["spec"]
    assert {"requests": {"storage": "5Gi"}} == claim["resources"]
    in_database = _of_history(Settings(history=True, history_secret="db"))
    assert set(on_volume) - {"PersistentVolumeClaim"} == set(in_database)
    (container,) = in_database["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "db", "key": "url"} == container["env"][0]["valueFrom"]["secretKeyRef"]
    assert ["manager-config"] == [each["name"] for each in container["volumeMounts"]]
    assert "v1alpha1.history.kuota.dev" == in_database["APIService"]["metadata"]["name"]


def test_the_recorder_of_the_history_only_reads_workloads_and_quotas() -> None:
    roles = {each["metadata"]["name"]: each for each in history_roles(Settings(history=True))}
    (watched, pods, published) = roles["kueue-history-role"]["rules"]
    assert (["pods"], ["get"]) == (pods["resources"], pods["verbs"])
    assert ["clusterqueues", "cohorts", "localqueues", "workloads"] == watched["resources"]
    assert ["list", "watch"] == watched["verbs"]
    assert ["v1alpha1.history.kuota.dev"] == published["resourceNames"]
    (read,) = roles["kueue-history-reader-role"]["rules"]
    assert (["history.kuota.dev"], ["get", "list"]) == (read["apiGroups"], read["verbs"])


def test_the_recorder_reads_the_secret_of_its_own_certificate_only() -> None:
    granted = [
        rule.get("resourceNames")
        for each in history_roles(Settings(history=True))
        for rule in each.get("rules") or ()
        if {"secrets", "*"} & set(rule.get("resources", ())) and rule["apiGroups"] == [""]
    ]
    assert [[history_part.SECRET]] == granted
    assert history_part.SECRET == _of_history(Settings(history=True))["Secret"]["metadata"]["name"]
    assert SECRET != history_part.SECRET


def test_two_pods_by_default_of_which_one_must_stay() -> None:
    assert 2 == named("Deployment", CONTROLLER)["spec"]["replicas"]
    assert 1 == named("PodDisruptionBudget", CONTROLLER)["spec"]["minAvailable"]
    assert "PodDisruptionBudget" not in kinds(Settings(replicas=1))


def test_a_changed_configuration_starts_new_pods() -> None:
    def digest(config: str) -> str:
        template = named("Deployment", CONTROLLER, Settings(config=config))["spec"]["template"]
        return str(template["metadata"]["annotations"][DIGEST])

    assert digest(CONFIG) != digest(CONFIG + "manageJobsWithoutQueueName: true\n")


def test_the_configuration_that_is_installed_is_a_good_one() -> None:
    config, _ = checked(CONFIG)
    assert config.leader_election is not None
    assert "c1f6bfd2.kueue.x-k8s.io" == config.leader_election.resource_name


def rules_of(*names: str) -> list[Json]:
    return [
        rule
        for each in objects(Settings())
        if each["kind"] in ("Role", "ClusterRole") and each["metadata"]["name"] in names
        for rule in each.get("rules") or ()
    ]


def test_the_controller_has_no_right_on_everything() -> None:
    rules = rules_of("kueue-manager-role", "kueue-leader-election-role", "kueue-metrics-auth-role")
    assert not [rule for rule in rules if "*" in texts(rule)]


def test_the_controller_reads_the_secrets_of_its_namespace_and_writes_one() -> None:
    granted = [
        (each["kind"], rule.get("resourceNames"), "update" in rule["verbs"])
        for each in objects(Settings())
        for rule in each.get("rules") or ()
        if "secrets" in rule.get("resources", ())
    ]
    assert [("Role", ["kueue-webhook-server-cert"], True), ("Role", None, False)] == granted


def test_the_controller_reads_the_cluster_profiles_of_its_namespace() -> None:
    (rule,) = rules_of("kueue-manager-clusterprofiles-role")
    assert ([CLUSTER_PROFILES.group], [CLUSTER_PROFILES.plural], ["list", "watch"]) == (
        rule["apiGroups"],
        rule["resources"],
        rule["verbs"],
    )


def test_what_exists_once_is_granted_by_name() -> None:
    by_name = ("webhookconfigurations", "customresourcedefinitions", "apiservices", "secrets")
    for rule in rules_of("kueue-manager-role", "kueue-manager-secrets-role"):
        if any(resource.endswith(by_name) for resource in rule["resources"]):
            # Definitions are watched for those of job kinds. Others only with a name.
            assert rule.get("resourceNames") or ["list", "watch"] == rule["verbs"]
            assert "create" not in rule["verbs"]
            assert "delete" not in rule["verbs"]


def test_the_controller_has_rights_on_kinds_that_its_code_knows() -> None:
    known = {(each.group, each.plural) for each in ALL}
    known |= {(each.gvk.group, each.plural) for each in BUILT_IN}
    known |= {(each.gvk.group, each.gvk.plural) for each in referred(BUILT_IN).values()}
    known |= {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiregistration.k8s.io", "apiservices"),
    }
    granted = {
        (rule["apiGroups"][0], resource.partition("/")[0])
        for rule in rules_of("kueue-manager-role", "kueue-leader-election-role")
        for resource in rule["resources"]
    }
    assert set() == granted - known


@pytest.mark.parametrize(
    "kind",
    [each for each in BUILT_IN if each.objects == each.group_kind],
    ids=lambda kind: kind.framework,
)
def test_the_controller_may_do_with_each_kind_of_job_what_it_needs(kind: JobKind) -> None:
    granted = {
        (resource, verb)
        for rule in rules_of("kueue-manager-role")
        if rule["apiGroups"] == [kind.gvk.group] and "resourceNames" not in rule
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource.partition("/")[0] == kind.plural
    }
    needed = {(kind.plural, verb) for verb in ("get", "list", "watch")}
    if kind.queued:
        needed |= {(kind.plural, verb) for verb in ("patch", "delete")}
        needed.add((f"{kind.plural}/finalizers", "update"))
    if kind.queued and kind.dispatch() is not None:
        needed.add((f"{kind.plural}/status", "patch"))
    assert needed == granted


def test_roles_of_teams_hold_nothing_that_sets_quota() -> None:
    labels = ("rbac.kueue.x-k8s.io/batch-user", "rbac.authorization.k8s.io/aggregate-to-edit")
    of_admins = {"kueue.x-k8s.io", "visibility.kueue.x-k8s.io"}
    for each in objects(Settings()):
        if any(label in each["metadata"]["labels"] for label in labels):
            for rule in each["rules"]:
                if of_admins & set(rule["apiGroups"]):
                    assert {"get", "list", "watch"} >= set(rule["verbs"]), each["metadata"]["name"]


def webhooks(chosen: Settings) -> dict[str, Json]:
    return {
        webhook["name"]: webhook for each in hooks(chosen) for webhook in each.get("webhooks") or ()
    }


KUEUES_KINDS = {
    *("Job", "MPIJob", "RayJob", "RayCluster", "RayService", "JobSet", "AppWrapper", "TrainJob"),
    *("Pod", "Deployment", "StatefulSet", "LeaderWorkerSet"),
}
"""The kinds that the configuration of Kueue's manifests enables."""


def kinds_of(chosen: Settings) -> set[str]:
    """The job kinds that webhooks review, in lower case."""
    return {name.removesuffix(".kb.io")[1:] for name in webhooks(chosen)} - {
        *("clusterqueue", "cohort", "resourceflavor", "workload")
    }


def test_the_kinds_of_kueues_manifests_are_queued_by_default() -> None:
    config, _ = checked(CONFIG)
    assert config.integrations is not None
    assert list(DEFAULT_KINDS) == config.integrations.frameworks
    assert {each.lower() for each in KUEUES_KINDS} == kinds_of(Settings())
    for name, each in webhooks(Settings()).items():
        assert ("Fail", False) == (each["failurePolicy"], "matchConditions" in each), name


def test_only_configured_kinds_of_jobs_are_asked_about() -> None:
    assert {"job"} == kinds_of(Settings(config=configuration(["batch/job"])))


@pytest.mark.parametrize(
    "parent", [each.framework for each in BUILT_IN if "pod" in each.requires], ids=str
)
def test_pods_are_asked_about_if_another_kind_gates_them_and_then_only_those(parent: str) -> None:
    found = webhooks(Settings(config=configuration([parent])))
    for name in ("mpod.kb.io", "vpod.kb.io"):
        (condition,) = found[name]["matchConditions"]
        assert "kueue.x-k8s.io/pod-suspending-parent" in condition["expression"]
    both = webhooks(Settings(config=configuration([parent, "pod"])))
    assert "matchConditions" not in both["mpod.kb.io"]


def test_nothing_is_asked_about_jobs_in_namespaces_that_are_not_managed() -> None:
    usual = webhooks(Settings())["mjob.kb.io"]["namespaceSelector"]
    assert ["kube-system", "kueue-system"] == usual["matchExpressions"][0]["values"]
    chosen = Settings(config=CONFIG + "managedJobsNamespaceSelector: {matchLabels: {gpu: 'yes'}}\n")
    chosen_selector = webhooks(chosen)["mjob.kb.io"]["namespaceSelector"]
    assert {"gpu": "yes"} == chosen_selector["matchLabels"]


def test_settings_go_by_the_names_of_the_chart() -> None:
    made = settings(
        {"namespace": "n"}, {"controllerManager.replicas": "3", "enablePrometheus": "true"}
    )
    assert (3, True, "n") == (made.replicas, made.service_monitor, made.namespace)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("controllerManager.replicas", "many"),
        ("controllerManager.replicas", "-1"),
        ("enablePrometheus", "perhaps"),
        ("enableKueueViz", "true"),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(Unusable, match=name):
        settings({}, {name: value})


def test_the_manifests_are_plain_yaml_without_references() -> None:
    from kuota.install.chart import dumped

    made = objects(Settings())
    text = dumped(made)
    assert "&id" not in text
    assert made == list(yaml.safe_load_all(text))


def test_readings_of_gpus_become_arguments_of_the_controller() -> None:
    (container,) = _containers(Settings(dcgm_exporter="http://dcgm:9400/metrics", idle_after=60))
    assert [
        "--dcgm-exporter=http://dcgm:9400/metrics",
        "--idle-below=5",
        "--idle-after=60",
    ] == container["args"][-3:]
    both = Settings(history=True, dcgm_prometheus="http://prometheus:9090")
    (recorder,) = _of_history(both)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--dcgm-prometheus=http://prometheus:9090" in recorder["args"]
    (plain,) = _containers(Settings(idle_after=60))
    assert not any("idle" in each for each in plain["args"])


def test_authors_are_recorded_if_there_is_a_history() -> None:
    settings = Settings(history=True)
    (recorder,) = _of_history(settings)["Deployment"]["spec"]["template"]["spec"]["containers"]
    (controller,), (plain,) = _containers(settings), _containers(Settings())
    assert "--record-authors" in recorder["args"]
    assert "--record-authors" in controller["args"]
    assert "--record-authors" not in plain["args"]


def _containers(settings: Settings) -> list[Json]:
    named = "Deployment", CONTROLLER
    found = next(e for e in objects(settings) if (e["kind"], e["metadata"]["name"]) == named)
    containers: list[Json] = found["spec"]["template"]["spec"]["containers"]
    return containers
