# SPDX-License-Identifier: Apache-2.0
"""`kuota install` and `uninstall`, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from cli.cluster import Cluster
from kuota.cli.main import main
from kuota.install.objects import objects
from kuota.install.settings import Settings


def kuota(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_a_dry_run_prints_every_object_and_asks_no_server() -> None:
    done = kuota("install", "--dry-run", "--kubeconfig", "/nowhere")
    assert 0 == done.exit_code
    assert objects(Settings()) == list(yaml.safe_load_all(done.stdout))


def test_a_dry_run_prints_json_as_well() -> None:
    done = kuota("install", "--dry-run", "-o", "json", "-n", "kuota-system")
    listed = json.loads(done.stdout)
    assert objects(Settings(namespace="kuota-system")) == listed["items"]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("kuota", f"kuota:{Settings().tag}"),
        ("kuota:7", "kuota:7"),
        ("registry.example:5000/a/kuota", f"registry.example:5000/a/kuota:{Settings().tag}"),
        ("registry.example:5000/a/kuota:7", "registry.example:5000/a/kuota:7"),
        ("registry.example/kuota:7@sha256:00", "registry.example/kuota@sha256:00"),
    ],
)
def test_the_image_may_be_named_in_every_usual_way(image: str, expected: str) -> None:
    listed = json.loads(kuota("install", "--dry-run", "-o", "json", "--image", image).stdout)
    (found,) = (each for each in listed["items"] if each["kind"] == "Deployment")
    assert expected == found["spec"]["template"]["spec"]["containers"][0]["image"]


def test_a_bad_configuration_is_reported_with_all_its_faults(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "integrations: {frameworks: [nonsense]}\nfairSharing: {preemptionStrategies: [Nonsense]}\n"
    )
    done = kuota("install", "--dry-run", "--config", str(config))
    assert 1 == done.exit_code
    assert "integrations.frameworks" in done.output
    assert "fairSharing.preemptionStrategies" in done.output
    assert "Nothing was installed" in done.output


def reviewed_kinds(*words: str) -> set[str]:
    """The kinds that the mutating webhooks of an installation review."""
    listed = json.loads(kuota("install", "--dry-run", "-o", "json", *words).stdout)
    (found,) = (e for e in listed["items"] if e["kind"] == "MutatingWebhookConfiguration")
    return {each["name"].removesuffix(".kb.io")[1:] for each in found["webhooks"]}


def test_kinds_are_chosen_by_their_names_or_those_of_their_integrations() -> None:
    kueues = {"clusterqueue", "resourceflavor", "workload"}
    words = "--kinds", "job, JobSet,kubeflow.org/pytorchjob,Job"
    assert kueues | {"job", "jobset", "pytorchjob"} == reviewed_kinds(*words)
    listed = json.loads(kuota("install", "--dry-run", "-o", "json", *words).stdout)
    (config,) = (e for e in listed["items"] if e["metadata"]["name"] == "kueue-manager-config")
    (text,) = config["data"].values()
    frameworks = ["batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob"]
    assert frameworks == yaml.safe_load(text)["integrations"]["frameworks"]


def test_all_unknown_kinds_are_named() -> None:
    done = kuota("install", "--dry-run", "--kinds", "Job,Jobb,nothing")
    assert (2, True) == (done.exit_code, "unknown job kind Jobb, nothing; use Job," in done.output)
    empty = kuota("install", "--dry-run", "--kinds", " , ")
    assert (2, True) == (empty.exit_code, "no job kind is named" in empty.output)


def test_an_alpha_kind_needs_its_feature_gate() -> None:
    spark = "--kinds", "SparkApplication"
    done = kuota("install", "--dry-run", *spark)
    assert (1, True) == (done.exit_code, "SparkApplicationIntegration" in done.output)
    gates = "--feature-gates", "SparkApplicationIntegration=true"
    assert "sparkapplication" in reviewed_kinds(*spark, *gates)


def test_kinds_are_named_in_the_configuration_or_as_an_option(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    done = kuota("install", "--dry-run", "--config", str(config), "--kinds", "Job")
    assert (2, True) == (done.exit_code, "integrations.frameworks of" in done.output)


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "controllerManager.replicas"),
        ("--set", "no.such.value=1"),
        ("--set", "enablePrometheus=maybe"),
        ("-o", "yaml"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_done(words: tuple[str, ...]) -> None:
    assert 2 == kuota("install", *words).exit_code


@pytest.mark.parametrize("command", [("install",), ("uninstall", "--yes")])
def test_the_embedded_server_needs_no_installation(
    cluster: Cluster, command: tuple[str, ...]
) -> None:
    done = kuota(*command, "--kubeconfig", str(cluster.kubeconfig))
    assert 1 == done.exit_code
    assert "this server is `kuota up`" in done.output
