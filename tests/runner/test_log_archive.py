# SPDX-License-Identifier: Apache-2.0
"""Logs of deleted pods are kept as long as their Job exists."""

from __future__ import annotations

from pathlib import Path

from kuota.api.base import Json
from kuota.runner.log_archive import KEPT_PODS, LogArchive
from kuota.runner.pod_home import PodHome


def pod(number: int, job: str = "j1", namespace: str = "lab") -> Json:
    owner = {"kind": "Job", "name": "train", "uid": job, "controller": True}
    return {
        "metadata": {
            "name": f"train-{number}",
            "namespace": namespace,
            "uid": f"{job}-p{number}",
            "creationTimestamp": f"2026-01-01T00:{number:02}:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "env": [{"name": "KEY", "value": "secret"}]}]},
    }


def written(folder: Path, one: Json, text: str) -> PodHome:
    """A home in which the pod's container has written the text."""
    home = PodHome(str(folder / "pods"), one["metadata"]["uid"])
    home.create(one)
    run = Path(home.run("main", 0))
    run.mkdir(parents=True)
    (run / "log").write_text(text)
    return home


def kept(folder: Path, archive: LogArchive, one: Json, text: str = "x") -> PodHome:
    home = written(folder, one, text)
    archive.keep("j1", one, home)
    return home


def test_logs_move_into_the_archive_without_the_rest_of_the_pod(tmp_path: Path) -> None:
    archive = LogArchive(str(tmp_path))
    home = kept(tmp_path, archive, pod(1), "epoch 1\n")
    assert not Path(home.path, "runs").exists()
    home.remove()
    assert not Path(home.path).exists()
    (found,) = archive.pods("lab")
    assert "train-1" == found["metadata"]["name"]
    assert "secret" not in str(found)
    run = archive.home(found).run("main", 0)
    assert "epoch 1\n" == Path(run, "log").read_text()


def test_pods_are_listed_by_namespace_oldest_first(tmp_path: Path) -> None:
    archive = LogArchive(str(tmp_path))
    for number in (2, 1):
        kept(tmp_path, archive, pod(number))
    assert ["train-1", "train-2"] == [each["metadata"]["name"] for each in archive.pods("lab")]
    assert [] == archive.pods("other")


def test_only_the_latest_pods_of_a_job_are_kept(tmp_path: Path) -> None:
    archive = LogArchive(str(tmp_path))
    for number in range(KEPT_PODS + 2):
        kept(tmp_path, archive, pod(number))
    names = [each["metadata"]["name"] for each in archive.pods("lab")]
    assert (KEPT_PODS, "train-2") == (len(names), names[0])


def test_a_forgotten_job_leaves_nothing(tmp_path: Path) -> None:
    archive = LogArchive(str(tmp_path))
    kept(tmp_path, archive, pod(1))
    assert ["j1"] == archive.jobs()
    archive.forget("j1")
    assert ([], []) == (archive.jobs(), archive.pods("lab"))
