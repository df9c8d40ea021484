# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of Deployments."""

from __future__ import annotations

from conformance.adapters.serving import config_of, validated
from conformance.case import Run, same
from conformance.jobs import listed_objects, local_queue, namespace, stored
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from kuota.bridge.jobs.deployment import Deployment
from kuota.bridge.jobs.job_webhook import defaulted

KIND = Deployment()


@suite("jobs/deployment-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    obj = whole(run.inputs["deployment"])
    space = obj["metadata"].get("namespace", "")
    around = [namespace(space), *listed_objects(run)]
    if run.inputs["defaultLqExist"]:
        around.append(local_queue("default", space))
    same(run.expected["want"], defaulted(KIND, obj, stored(around), config_of(run)))


@suite("jobs/deployment-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    validated(run, KIND, whole(run.inputs["deployment"]))


@suite("jobs/deployment-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    validated(run, KIND, whole(run.inputs["newDeployment"]), whole(run.inputs["oldDeployment"]))
