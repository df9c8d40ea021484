# SPDX-License-Identifier: Apache-2.0
"""A pod cannot make the runner use more memory, time or processes than a pod needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kuota.api.base import Json, Key
from kuota.kube.resources import Resource
from kuota.runner.container_env import MOST_BYTES, LaunchError, Sources
from kuota.runner.launch import PodEnvironment, container_plan
from kuota.runner.pod_home import PodHome
from kuota.runner.pod_launch import MOST_SOURCE_BYTES, PodLaunch
from kuota.runner.settings import RunnerSettings, WorkerContext
from kuota.runner.volumes import MOST_CONTAINERS, MOST_FILE_BYTES, check_spec, files_plan
from runner.watched import Watched, launch, output, story

PLACE = PodEnvironment(root="/pods/x", volumes={"v": "/pods/x/v"}, base_env={})
LARGE = Sources(config_maps={"large": {"data": {"text": "x" * (1 << 20)}}})


def pod(container: Json, **spec: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [container], **spec},
    }


def rejection(container: Json, sources: Sources = LARGE) -> LaunchError:
    one = {"name": "main", "image": "none", "command": ["true"]} | container
    with pytest.raises(LaunchError) as error:
        container_plan(pod(one), one, PLACE, sources)
    return error.value


def doubling(count: int) -> list[Json]:
    """Variables of which each has twice the length of its predecessor."""
    first = [{"name": "V0", "value": "xxxxxxxx"}]
    return first + [
        {"name": f"V{at}", "value": f"$(V{at - 1})$(V{at - 1})"} for at in range(1, count)
    ]


NAMED = {"configMapKeyRef": {"name": "large", "key": "text"}}


@pytest.mark.parametrize(
    "container",
    [
        # 25 of them have 256 MiB, and 60 have more than any memory.
        pytest.param({"env": doubling(18)}, id="variables that double"),
        pytest.param({"env": doubling(12), "args": ["$(V11)" * 100]}, id="an argument"),
        pytest.param({"env": doubling(14), "args": ["$(V13)"] * 100}, id="many arguments"),
        pytest.param(
            {"env": [{"name": f"V{at}", "valueFrom": NAMED} for at in range(10)]}, id="references"
        ),
        pytest.param(
            {
                "envFrom": [
                    {"prefix": f"p{at}", "configMapRef": {"name": "large"}} for at in range(10)
                ]
            },
            id="prefixes",
        ),
        pytest.param(
            {
                "env": doubling(12),
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(V11)"}],
            },
            id="a path",
        ),
    ],
)
def test_references_to_variables_cannot_exhaust_the_memory(container: Json) -> None:
    error = rejection(container)
    assert (True, True) == (error.permanent, "which the kernel rejects" in error.message)


def test_ordinary_variables_may_be_large() -> None:
    one = {"name": "main", "image": "none", "command": ["$(V13)"], "env": doubling(14)}
    assert 8 << 13 == len(container_plan(pod(one), one, PLACE, Sources()).argv[0]) < MOST_BYTES


def test_volumes_cannot_repeat_a_config_map_without_end(tmp_path: Path) -> None:
    volumes = [
        {"name": f"v{at}", "configMap": {"name": "large"}}
        for at in range((MOST_FILE_BYTES >> 20) + 1)
    ]
    home = PodHome(str(tmp_path), "u")
    with pytest.raises(LaunchError, match="64 MiB"):
        files_plan(pod({"name": "main"}, volumes=volumes), home, LARGE, [])
    assert files_plan(pod({"name": "main"}, volumes=volumes[:2]), home, LARGE, [])["files"]


class Maps:
    """A client of a server in which every ConfigMap has a MiB, and which counts requests."""

    def __init__(self) -> None:
        self.requests = 0

    async def get(self, resource: Resource, key: Key) -> Json:
        self.requests += 1
        return {"metadata": {"name": key.name}, "data": {"text": "x" * (1 << 20)}}


def test_a_pod_cannot_have_all_config_maps_read_at_once(tmp_path: Path) -> None:
    maps, most = Maps(), MOST_SOURCE_BYTES >> 20
    settings = RunnerSettings(state_dir=str(tmp_path))
    context = cast(WorkerContext, SimpleNamespace(client=maps, settings=settings, allocatable={}))
    launching = PodLaunch(PodHome(str(tmp_path), "u"), context)
    refs = [{"configMapRef": {"name": f"m{at}"}} for at in range(10 * most)]
    one = {"name": "main", "image": "none", "command": ["true"], "envFrom": refs}
    with pytest.raises(LaunchError, match="64 MiB of configmaps"):
        asyncio.run(launching.launch(pod(one), one, {}))
    assert most == maps.requests


def test_a_pod_has_a_limited_number_of_containers() -> None:
    one = {"image": "none", "command": ["true"]}
    some = [one | {"name": f"c{at}"} for at in range(MOST_CONTAINERS + 1)]
    with pytest.raises(LaunchError, match="129 containers"):
        check_spec({"containers": some})
    check_spec({"containers": some[1:]})


def test_processes_are_limited_where_no_cgroup_limits_them(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("grep processes /proc/self/limits", most_processes=4321))
        await watched.ended()
        assert ["4321", "4321"] == output(tmp_path / "0").split()[2:4]

    story(work)
