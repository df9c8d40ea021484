# SPDX-License-Identifier: Apache-2.0
"""A controller process reads dcgm-exporters, and reports idle GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from control.objects import flavor, job, local_queue, queue
from controller.site import Site, run_story
from controller.test_serving_process import PLAIN, _counted
from kuota.api.base import Json
from kuota.kube.resources import CORE_EVENTS
from utilization.exported import EXPORTED
from utilization.test_cluster_devices import pod


@pytest.mark.slow
def test_an_idle_gpu_of_a_cluster_is_reported_by_the_leader(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        created = list[str]()

        async def exported(request: web.Request) -> web.Response:
            return web.Response(text=EXPORTED if created else "")

        app = web.Application()
        app.router.add_get("/metrics", exported)
        async with TestServer(app) as exporter:
            running = await site.controller(
                "--parts=core,scheduler,jobs",
                "--plain-metrics",
                f"--dcgm-exporter=http://localhost:{exporter.port}/metrics",
                "--idle-after=1",
                config=PLAIN,
            )
            await site.apply(flavor(), queue("cq", 1), local_queue(), job("a"))
            workload = await site.workload_of("a")
            name = workload["metadata"]["name"]
            await site.apply(pod("notebook-0", name), pod("train-0", name))
            created.append(name)

            def idle(event: Json) -> bool:
                about = event["involvedObject"]
                return (event.get("reason"), about["kind"], about["name"]) == (
                    "DeviceIdle",
                    "Workload",
                    name,
                )

            (event,) = await site.until_some(CORE_EVENTS, idle)
            assert "GPU-22222222-bbbb of pod notebook-0 is idle since" in event["message"]
            url = f"http://127.0.0.1:{await running.port('metrics')}/metrics"
            text = await _counted(url, "kuota_idle_devices{")
            (line,) = [each for each in text.splitlines() if each.startswith("kuota_idle_devices{")]
            assert 'team="team"} 1.0' in line

    run_story(story, tmp_path)
