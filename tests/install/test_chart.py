# SPDX-License-Identifier: Apache-2.0
"""The Helm chart installs what `kuota install` does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from install.helm import CHART, helm, rendered, template
from kuota import __version__
from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all
from kuota.install.configuration import CONFIG, configuration
from kuota.install.history import history, history_api_service
from kuota.install.objects import objects
from kuota.install.settings import VALUES, Settings, Unusable, settings

_KEEP = {"helm.sh/resource-policy": "keep"}


def _chart_objects(*flags: str, namespace: str = "kueue-system") -> dict[str, Json]:
    found = rendered(*flags, namespace=namespace)
    for each in found:
        if each["metadata"].get("annotations") == _KEEP:
            del each["metadata"]["annotations"]
    return _by_name(found)


def _installed(settings: Settings) -> dict[str, Json]:
    made = [each for each in objects(settings) if each["kind"] != "Namespace"]
    return _by_name(msgspec.json.decode(msgspec.json.encode(made)))


def _by_name(found: list[Json]) -> dict[str, Json]:
    named = {f"{each['kind']}/{each['metadata']['name']}": each for each in found}
    assert len(found) == len(named)
    return named


def _assert_same(expected: dict[str, Json], actual: dict[str, Json]) -> None:
    assert sorted(expected) == sorted(actual)
    for name, each in expected.items():
        assert each == actual[name], name


def test_the_chart_renders_what_is_installed_without_it() -> None:
    _assert_same(_installed(Settings()), _chart_objects())


def test_another_namespace_is_meant_everywhere() -> None:
    rendered = _chart_objects(namespace="kuota-system")
    _assert_same(_installed(Settings(namespace="kuota-system")), rendered)


def test_values_switch_off_and_on_what_settings_do(tmp_path: Path) -> None:
    config = configuration(["batch/job", "kubeflow.org/pytorchjob", "statefulset"])
    config += "managedJobsNamespaceSelector:\n  matchLabels:\n    team: blue\n"
    (tmp_path / "config.yaml").write_text(config)
    settings = Settings(
        replicas=1,
        tag="sha256:00",
        log_level=4,
        feature_gates="TopologyAwareScheduling=false,LocalQueueMetrics=true",
        priority_class="",
        config=config,
        fairness=False,
        service_monitor=True,
        network_policy=False,
        reinvocation="IfNeeded",
        queue_name_policy=True,
        dashboard=True,
        dashboard_actions=True,
    )
    _assert_same(
        _installed(settings),
        _chart_objects(
            *("--set", "controllerManager.replicas=1"),
            *("--set", "controllerManager.manager.image.tag=sha256:00"),
            *("--set", "controllerManager.manager.logLevel=4"),
            *("--set", "controllerManager.manager.priorityClassName="),
            *("--set", "controllerManager.featureGates[0].name=TopologyAwareScheduling"),
            *("--set", "controllerManager.featureGates[0].enabled=false"),
            *("--set", "controllerManager.featureGates[1].name=LocalQueueMetrics"),
            *("--set", "controllerManager.featureGates[1].enabled=true"),
            *("--set", "enableVisibilityAPF=false,enablePrometheus=true"),
            *("--set", "networkPolicy.enabled=false,queueNamePolicy.enabled=true"),
            *("--set", "dashboard.enabled=true,dashboard.actions=true"),
            *("--set", "mutatingWebhook.reinvocationPolicy=IfNeeded"),
            "--set-file",
            f"managerConfig.controllerManagerConfigYaml={tmp_path / 'config.yaml'}",
        ),
    )


_DASHBOARD = {"dashboard.enabled": "true"}
_PROXY = {"dashboard.proxy.caSecret": "proxy-ca"}
_NAMES = {"dashboard.proxy.names": "front,back"}
_ACTIONS = {"dashboard.actions": "true"}
_HISTORY = {"history.enabled": "true"}
_EXPORTER = {"deviceMetrics.dcgmExporter": "http://dcgm.gpus:9400/metrics"}
_PROMETHEUS = {
    "deviceMetrics.prometheus": "http://prometheus.monitoring:9090",
    "deviceMetrics.prometheusSelector": 'job="dcgm-exporter",namespace="gpus"',
}
CHOICES: dict[str, dict[str, str]] = {
    "dashboard": _DASHBOARD,
    "dashboard-actions": _DASHBOARD | _ACTIONS,
    "dashboard-proxy": _DASHBOARD | _PROXY,
    "dashboard-proxy-actions": _DASHBOARD | _PROXY | _NAMES | _ACTIONS,
    "dashboard-open": _DASHBOARD | {"networkPolicy.enabled": "false"},
    "history-volume": _HISTORY | {"history.persistence.size": "5Gi"},
    "history-class": _HISTORY | {"history.persistence.storageClassName": "fast"},
    "history-claim": _HISTORY | {"history.persistence.existingClaim": "records"},
    "history-database": _HISTORY | {"history.database.existingSecret": "records"},
    "history-open": _HISTORY | {"networkPolicy.enabled": "false"},
    "monitoring": {
        "enablePrometheus": "true",
        "alerts.enabled": "true",
        "grafanaDashboards.enabled": "true",
    },
    "exporter": _EXPORTER,
    "prometheus": _PROMETHEUS | {"deviceMetrics.idleBelowPercent": "12.5"},
    "policy": {"queueNamePolicy.enabled": "true"},
    "no-budget": {"controllerManager.podDisruptionBudget.enabled": "false"},
    "no-replicas": {"controllerManager.replicas": "0"},
    "image": {
        "controllerManager.manager.image.repository": "registry.example:5000/kuota",
        "controllerManager.manager.image.tag": "1",
        "controllerManager.manager.image.pullPolicy": "Always",
    },
}
"""Values of the chart by name of a test. A comma in a value is escaped for Helm."""
EVERYTHING = {name: value for each in CHOICES.values() for name, value in each.items()} | {
    "controllerManager.replicas": "3",
    "networkPolicy.enabled": "true",
    "deviceMetrics.idleAfterSeconds": "2000000",
    "history.database.existingSecret": "",
}


def _flags(values: dict[str, str]) -> list[str]:
    """The values as flags. Text such as "1" stays text; numbers and booleans do not."""
    texts = {"controllerManager.manager.image.tag"}
    found: list[str] = []
    for name, value in values.items():
        escaped = value.replace(",", "\\,")
        found += ["--set-string" if name in texts else "--set", f"{name}={escaped}"]
    return found


@pytest.mark.parametrize("values", [*CHOICES.values(), EVERYTHING], ids=[*CHOICES, "everything"])
def test_each_optional_feature_is_the_same_with_and_without_helm(values: dict[str, str]) -> None:
    _assert_same(_installed(settings({}, values)), _chart_objects(*_flags(values)))


def test_the_chart_has_no_value_that_this_module_does_not_set() -> None:
    covered = set(EVERYTHING) | {
        "controllerManager.manager.logLevel",
        "controllerManager.manager.priorityClassName",
        "enableVisibilityAPF",
        "mutatingWebhook.reinvocationPolicy",
    }
    assert set() == set(VALUES) - covered


@pytest.mark.parametrize(
    ("values", "other"),
    [
        (_DASHBOARD | _NAMES, "dashboard.proxy.caSecret"),
        ({"deviceMetrics.prometheus": "http://p"}, "deviceMetrics.prometheusSelector"),
        (
            {"history.persistence.existingClaim": "a", "history.database.existingSecret": "b"},
            "history.database.existingSecret",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused_with_the_other_one(
    values: dict[str, str], other: str
) -> None:
    with pytest.raises(Unusable, match=other):
        settings({}, values)
    done = template(*_flags(values))
    assert (1, True) == (done.returncode, other in done.stderr)


def test_every_object_of_the_history_is_in_its_template_once() -> None:
    text = (CHART / "templates" / "history.yaml").read_text()
    kinds = [line for line in text.splitlines() if line.startswith("kind: ")]
    with_claim = Settings(history=True)
    assert len(kinds) == len(history(with_claim)) + len(history_api_service(with_claim))


def test_a_claim_of_the_chart_outlives_its_release() -> None:
    for flags, kept in (((), [_KEEP]), (("--set", "history.persistence.existingClaim=a"), [])):
        found = rendered("--set", "history.enabled=true", *flags)
        claims = [each for each in found if each["kind"] == "PersistentVolumeClaim"]
        assert kept == [each["metadata"].get("annotations") for each in claims]


_LITERAL = """
controllerManager:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 0
  imagePullSecrets:
  - name: registry
  nodeSelector:
    pool: system
  tolerations:
  - key: dedicated
    operator: Exists
  manager:
    podAnnotations:
      example.com/scrape: "true"
metricsService:
  type: NodePort
  annotations:
    example.com/a: "1"
  labels:
    example.com/b: "2"
webhookService:
  ipDualStack:
    enabled: true
"""


def test_values_of_kueues_chart_that_settings_lack_reach_the_pod(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(_LITERAL)
    found = _chart_objects("--values", str(tmp_path / "values.yaml"))
    deployment = found["Deployment/kueue-controller-manager"]["spec"]
    pod = deployment["template"]["spec"]
    assert {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}} == deployment["strategy"]
    assert (True, "ClusterFirstWithHostNet") == (pod["hostNetwork"], pod["dnsPolicy"])
    assert [{"name": "registry"}] == pod["imagePullSecrets"]
    assert {"pool": "system"} == pod["nodeSelector"]
    assert [{"key": "dedicated", "operator": "Exists"}] == pod["tolerations"]
    notes = deployment["template"]["metadata"]["annotations"]
    assert "true" == notes["example.com/scrape"]
    metrics = found["Service/kueue-controller-manager-metrics-service"]
    assert ("1", "2", "NodePort") == (
        metrics["metadata"]["annotations"]["example.com/a"],
        metrics["metadata"]["labels"]["example.com/b"],
        metrics["spec"]["type"],
    )
    assert ["IPv6", "IPv4"] == found["Service/kueue-webhook-service"]["spec"]["ipFamilies"]


@pytest.mark.parametrize("value", ["enableKueueViz=true", "enableCertManager=true"])
def test_a_value_that_would_be_ignored_is_refused(value: str) -> None:
    done = template("--set", value)
    assert 0 != done.returncode
    assert value.partition("=")[0] in done.stderr


def test_helm_finds_nothing_to_complain_of() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert 0 == done.returncode, done.stdout


def test_the_chart_is_of_this_version() -> None:
    chart = load_all((CHART / "Chart.yaml").read_text())[0]
    assert [__version__, __version__] == [chart["version"], chart["appVersion"]]


def test_every_setting_is_a_value_of_the_chart_with_the_same_default() -> None:
    values = load_all((CHART / "values.yaml").read_text())[0]
    defaults = msgspec.to_builtins(Settings()) | {"tag": ""}
    for name, field in VALUES.items():
        found = values
        for part in name.split("."):
            found = found[part]
        assert defaults[field] == found, name


def test_the_chart_brings_the_same_configuration() -> None:
    values = load_all((CHART / "values.yaml").read_text())[0]
    assert CONFIG == values["managerConfig"]["controllerManagerConfigYaml"]
