# SPDX-License-Identifier: Apache-2.0
"""The Helm chart installs what `kuota install` does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from kuota import __version__
from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all
from kuota.install.objects import objects
from kuota.install.settings import CONFIG, VALUES, Settings

_CHART = Path(__file__).parents[2] / "charts" / "kuota"
_HELM = os.environ.get("HELM") or shutil.which("helm")
_KEEP = {"helm.sh/resource-policy": "keep"}

needs_helm = pytest.mark.skipif(
    _HELM is None, reason="no helm on the PATH, and none named by $HELM"
)


def _rendered(*flags: str, namespace: str = "kueue-system") -> subprocess.CompletedProcess[str]:
    command = [_HELM or "helm", "template", "kueue", str(_CHART), "--namespace", namespace]
    versioned = [*command, "--kube-version", "1.36.0", *flags]
    return subprocess.run(versioned, capture_output=True, text=True, check=False)


def _chart_objects(*flags: str, namespace: str = "kueue-system") -> dict[str, Json]:
    done = _rendered(*flags, namespace=namespace)
    assert "" == done.stderr
    found: list[Json] = [each for each in load_all(done.stdout) if each]
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


@needs_helm
def test_the_chart_renders_what_is_installed_without_it() -> None:
    _assert_same(_installed(Settings()), _chart_objects())


@needs_helm
def test_another_namespace_is_meant_everywhere() -> None:
    rendered = _chart_objects(namespace="kuota-system")
    _assert_same(_installed(Settings(namespace="kuota-system")), rendered)


@needs_helm
def test_values_switch_off_and_on_what_settings_do(tmp_path: Path) -> None:
    config = CONFIG.replace("- batch/job", "- batch/job\n  - pod\n  - statefulset")
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
            *("--set", "networkPolicy.enabled=false"),
            *("--set", "dashboard.enabled=true,dashboard.actions=true"),
            *("--set", "mutatingWebhook.reinvocationPolicy=IfNeeded"),
            "--set-file",
            f"managerConfig.controllerManagerConfigYaml={tmp_path / 'config.yaml'}",
        ),
    )


@needs_helm
def test_the_dashboard_is_read_only_unless_actions_are_enabled() -> None:
    rendered = _chart_objects("--set", "dashboard.enabled=true")
    _assert_same(_installed(Settings(dashboard=True)), rendered)


@needs_helm
@pytest.mark.parametrize("value", ["enableKueueViz=true", "enableCertManager=true"])
def test_a_value_that_would_be_ignored_is_refused(value: str) -> None:
    done = _rendered("--set", value)
    assert 0 != done.returncode
    assert value.partition("=")[0] in done.stderr


@needs_helm
def test_helm_finds_nothing_to_complain_of() -> None:
    command = [_HELM or "helm", "lint", "--strict", str(_CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout


def test_the_chart_is_of_this_version() -> None:
    chart = load_all((_CHART / "Chart.yaml").read_text())[0]
    assert [__version__, __version__] == [chart["version"], chart["appVersion"]]


def test_every_setting_is_a_value_of_the_chart_with_the_same_default() -> None:
    values = load_all((_CHART / "values.yaml").read_text())[0]
    defaults = msgspec.to_builtins(Settings()) | {"tag": ""}
    for name, field in VALUES.items():
        found = values
        for part in name.split("."):
            found = found[part]
        assert defaults[field] == found, name


def test_the_chart_brings_the_same_configuration() -> None:
    values = load_all((_CHART / "values.yaml").read_text())[0]
    assert CONFIG == values["managerConfig"]["controllerManagerConfigYaml"]
