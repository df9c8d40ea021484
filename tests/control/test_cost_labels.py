# SPDX-License-Identifier: Apache-2.0
"""Labels that attribute costs reach the pods."""

from __future__ import annotations

from control.objects import job, local_queue
from control.stage import Stage, run_scene
from kuota.api.base import Json

CONFIG = {
    "integrations": {
        "frameworks": ["batch/job"],
        "labelKeysToCopy": ["team", "cost-centre", "project"],
    }
}


def labelled(labels: Json) -> Json:
    """A LocalQueue with labels."""
    plain = local_queue()
    return plain | {"metadata": plain["metadata"] | {"labels": labels}}


def labels_of_pods(stage: Stage, name: str) -> Json:
    found: Json = stage.job(name)["spec"]["template"]["metadata"].get("labels") or {}
    return {key: found[key] for key in ("team", "cost-centre", "project", "other") if key in found}


def test_pods_get_the_labels_of_their_job_and_of_its_local_queue() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        labels = {"team": "vision", "cost-centre": "42", "other": "x"}
        await stage.api.apply(
            local_queue() | {"metadata": local_queue()["metadata"] | {"labels": labels}}
        )
        made = job("a")
        made["metadata"].setdefault("labels", {})["cost-centre"] = "7"
        made["spec"]["template"].setdefault("metadata", {})["labels"] = {"team": "own"}
        await stage.api.apply(made, job("b"))
        await stage.rest()
        assert not stage.suspended("a")
        assert {"team": "own", "cost-centre": "7"} == labels_of_pods(stage, "a")
        assert {"team": "vision", "cost-centre": "42"} == labels_of_pods(stage, "b")

    run_scene(scene, CONFIG)


def test_without_configured_keys_pods_get_no_labels() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        labels = {"team": "vision"}
        await stage.api.apply(
            local_queue() | {"metadata": local_queue()["metadata"] | {"labels": labels}}
        )
        await stage.api.apply(job("a"))
        await stage.rest()
        assert {} == labels_of_pods(stage, "a")

    run_scene(scene)
