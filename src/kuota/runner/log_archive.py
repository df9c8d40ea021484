# SPDX-License-Identifier: Apache-2.0
"""Keeps the logs of deleted pods for as long as their Job exists.

A preempted Job is suspended, and the pods of a suspended Job are deleted; what they wrote must not
be lost with them. Volumes and working directories are not kept.

<state>/archive/<job uid>/<pod uid>/pod.json    whose logs these are
                                    runs/       as in the pod's home, see `pod_home`
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil

from kuota.api.base import Json

from .deletion import delete_content
from .pod_home import PodHome, homes

_log = logging.getLogger(__name__)

KEPT_PODS = 20
"""How many deleted pods of one Job are kept, the latest ones."""

_METADATA = ("name", "namespace", "uid", "creationTimestamp", "labels", "ownerReferences")


class LogArchive:
    """The archive in one state directory. Everything is on disk, so any process can read it."""

    def __init__(self, state_dir: str) -> None:
        self._folder = state_dir + "/archive"

    def keep(self, job_uid: str, pod: Json, home: PodHome) -> None:
        """Move the logs in the pod's home into the archive. The rest of the home may stay.

        If the disk is full even without the other files of the pod, the logs are lost.
        """
        if not os.path.isdir(home.path + "/runs"):
            return
        try:
            self._move(job_uid, pod, home)
        except OSError:
            for each in (home.root, home.volumes):
                with contextlib.suppress(OSError):
                    delete_content(each)  # This may be what fills the disk.
            try:
                self._move(job_uid, pod, home)
            except OSError as error:
                _log.warning("the logs of pod %s are lost: %s", pod["metadata"]["name"], error)

    def _move(self, job_uid: str, pod: Json, home: PodHome) -> None:
        folder = f"{self._folder}/{job_uid}"
        kept = PodHome(folder, pod["metadata"]["uid"])
        os.makedirs(kept.path, mode=0o700, exist_ok=True)
        # The pod as it came: of one that ended, the informer keeps little.
        kept.write("pod.json", _essence(home.pod() or pod))
        os.rename(home.path + "/runs", kept.path + "/runs")
        for each in self._pods(job_uid)[:-KEPT_PODS]:
            path = PodHome(folder, each["metadata"]["uid"]).path
            shutil.rmtree(path, ignore_errors=True)

    def jobs(self) -> list[str]:
        """The uids of the Jobs with archived pods."""
        return homes(self._folder)

    def forget(self, job_uid: str) -> None:
        shutil.rmtree(f"{self._folder}/{job_uid}", ignore_errors=True)

    def pods(self, namespace: str) -> list[Json]:
        """The archived pods of a namespace, the oldest first: metadata and names of containers."""
        found = [pod for uid in self.jobs() for pod in self._pods(uid)]
        mine = [each for each in found if each["metadata"].get("namespace") == namespace]
        return sorted(mine, key=_created)

    def home(self, pod: Json) -> PodHome:
        """Where the logs of an archived pod are."""
        job = job_owner(pod) or {}
        return PodHome(f"{self._folder}/{job.get('uid')}", pod["metadata"]["uid"])

    def _pods(self, job_uid: str) -> list[Json]:
        folder = f"{self._folder}/{job_uid}"
        found = [PodHome(folder, uid).pod() for uid in homes(folder)]
        return sorted((each for each in found if each is not None), key=_created)


def job_owner(pod: Json) -> Json | None:
    """The reference to the Job that controls the pod; None if none does."""
    for each in pod["metadata"].get("ownerReferences") or ():
        if each.get("kind") == "Job" and each.get("controller"):
            found: Json = each
            return found
    return None


def _essence(pod: Json) -> Json:
    metadata = {field: pod["metadata"][field] for field in _METADATA if field in pod["metadata"]}
    spec = pod.get("spec") or {}
    named = {
        field: [{"name": each["name"]} for each in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": named}


def _created(pod: Json) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
