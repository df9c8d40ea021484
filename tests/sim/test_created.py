# SPDX-License-Identifier: Apache-2.0
"""Plans of every job kind, of CronJobs, generated names and devices."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.sim.scenario import load_scenario
from manifests import job, local_queue

QUEUE = {"kueue.x-k8s.io/queue-name": "q"}


def cron_job(**spec: object) -> Json:
    made = job("nightly", "q")
    inner = {"metadata": {"labels": QUEUE}, "spec": made["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": inner, **spec},
    }


def test_one_job_of_a_cron_job_is_planned() -> None:
    found = load_scenario([cron_job()])
    assert [("Job", "nightly-1")] == [(each.kind, each.name) for each in found.submissions]
    assert any("CronJob default/nightly" in note for note in found.notes)


def test_a_suspended_cron_job_creates_no_job() -> None:
    found = load_scenario([cron_job(suspend=True)])
    assert () == found.submissions
    assert any("is suspended" in note for note in found.notes)


def test_the_jobs_of_a_cron_job_are_planned_if_the_manifests_contain_them() -> None:
    made = job("nightly-28", "q")
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u"}
    made["metadata"] |= {"namespace": "default", "ownerReferences": [owner]}
    found = load_scenario([cron_job(), made])
    assert ["nightly-28"] == [each.name for each in found.submissions]


@pytest.mark.parametrize("spec", [None, [], {"jobTemplate": 1}, {"jobTemplate": {"metadata": []}}])
def test_a_malformed_cron_job_does_no_harm(spec: object) -> None:
    assert () == load_scenario([cron_job() | {"spec": spec}]).submissions


def test_generated_names_are_numbered() -> None:
    made = job("", "q")
    del made["metadata"]["name"]
    made["metadata"]["generateName"] = "train-"
    found = load_scenario([made, job("train-1", "q"), made])
    assert ["train-2", "train-1", "train-3"] == [each.name for each in found.submissions]


def test_all_job_kinds_are_queued_unless_a_configuration_says_otherwise() -> None:
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "ring", "namespace": "default", "labels": QUEUE},
        "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job("", "q")["spec"]}}]},
    }
    (found,) = load_scenario([local_queue("q"), job_set]).submissions
    assert ("JobSet", "ring") == (found.kind, found.name)
    config = load("{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration}")
    limited = load_scenario([local_queue("q"), job_set], config)
    assert () == limited.submissions
    (note,) = [each for each in limited.notes if "JobSet" in each]
    assert "add jobset.x-k8s.io/jobset to integrations.frameworks" in note


def test_devices_of_claim_templates_are_charged() -> None:
    config = load(
        """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        resources:
          deviceClassMappings: [{name: example.com/gpu, deviceClassNames: [gpu.example.com]}]
        """
    )
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    claims = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "pair", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    made = job("train", "q")
    claim = {"name": "gpus", "resourceClaimTemplateName": "pair"}
    made["spec"]["template"]["spec"]["resourceClaims"] = [claim]
    gates = Gates.of({"KueueDRAIntegration": True})
    (found,) = load_scenario([claims, made], config, gates).submissions
    assert "example.com/gpu" in str(found.workload.pod_sets)
