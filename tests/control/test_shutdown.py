# SPDX-License-Identifier: Apache-2.0
"""The end of a process: what is in progress is written, and nothing else is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from kuota.kube.client import Listing
from kuota.kube.errors import NotFound
from kuota.kube.resources import CORE_EVENTS, Resource

UNSERVED = "jobset.x-k8s.io"
INTEGRATIONS = {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]}


def test_the_end_does_not_wait_for_kinds_that_the_server_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(stage: Stage) -> None:
        list_all = stage.api.list

        async def listed(resource: Resource, *args: Any, **options: Any) -> Listing:
            if resource.group == UNSERVED:
                raise NotFound(404, "NotFound", "the server could not find the resource")
            return await list_all(resource, *args, **options)

        async def fetched(path: str) -> Any:
            raise NotFound(404, "NotFound", path)

        monkeypatch.setattr(stage.api, "list", listed)
        monkeypatch.setattr(stage.api, "fetch", fetched)
        await stage.restart()
        await stage.furnish()
        await stage.api.apply(job("a", "1"))
        await stage.rest()
        assert not stage.suspended("a")
        await asyncio.wait_for(stage.system.finish(), 0.3)
        assert stage.api.all(CORE_EVENTS), "events are sent before the process ends"

    run_scene(scene, {"integrations": INTEGRATIONS})
