# SPDX-License-Identifier: Apache-2.0
"""The copies of Ray clusters and services in other clusters, which follow some changes."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.job_common import prebuilt
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, text

from .dispatch import Dispatch, with_workload
from .fields import put
from .ray_spec import group_name, worker_count, worker_groups


class RayClusterDispatch(Dispatch):
    """A RayCluster, whose worker groups can be resized while it runs."""

    def updated(self, job: Json, remote: Json, workload: str, current: str, gates: Gates) -> Json:
        if not elastic(job, gates):
            return remote
        old, new = _workers(remote), _workers(job)
        if sum(old.values()) < sum(new.values()) and workload != current:
            return remote
        if old != new:
            remote = _resized(remote, job)
        named = prebuilt(remote, gates)[0] == workload
        return remote if named else with_workload(remote, workload, gates)


def _groups(cluster: Json) -> list[Json]:
    return worker_groups(child(cluster, "spec"))


def _workers(cluster: Json) -> dict[str, int]:
    """Return the number of pods of each worker group."""
    return {group_name(each): worker_count(each) for each in _groups(cluster)}


def _resized(remote: Json, local: Json) -> Json:
    """Return a RayCluster with the sizes of the worker groups of another one."""
    sizes = {text(each.get("groupName")): each for each in _groups(local)}
    fields = ("replicas", "numOfHosts")
    groups = []
    for each in _groups(remote):
        other = sizes.get(text(each.get("groupName")))
        if other is not None:
            kept = {key: value for key, value in each.items() if key not in fields}
            each = kept | {key: other[key] for key in fields if key in other}
        groups.append(each)
    return put(remote, ("spec", "workerGroupSpecs"), groups)


class RayServiceDispatch(Dispatch):
    """A RayService. Changes of what it serves are forwarded."""

    def updated(self, job: Json, remote: Json, workload: str, current: str, gates: Gates) -> Json:
        field = "serveConfigV2"
        wanted, spec = text(child(job, "spec").get(field)), child(remote, "spec")
        if not gates.on(Gate.MultiKueueRemoteSpecSync) or text(spec.get(field)) == wanted:
            return remote
        return remote | {"spec": spec | {field: wanted}}
