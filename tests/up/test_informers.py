# SPDX-License-Identifier: Apache-2.0
"""All parts of one machine share their informers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import CRON_JOBS, JOBS, NODES, PODS, WORKLOADS
from kuota.server.api import ApiServer
from kuota.server.requests import Request, Response
from kuota.server.store import Store
from kuota.up.endpoints import Endpoints
from kuota.up.host import detected
from kuota.up.installation import Installation
from kuota.up.options import UpOptions
from kuota.up.quota_enforcement import QuotaEnforcement
from kuota.up.state_dir import StateDir

EXPECTED = {each.plural for each in (JOBS, CRON_JOBS, NODES, PODS, WORKLOADS)}
LIMIT_S = 30


class Counting(ApiServer):
    """Counts the watches that are begun, by the last part of their path."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.watches: Counter[str] = Counter()
        self.all_begun = asyncio.Event()

    async def handle(self, request: Request) -> Response:
        if request.query.get("watch"):
            self.watches[request.path.rpartition("/")[2]] += 1
            if EXPECTED <= self.watches.keys():
                self.all_begun.set()
        return await super().handle(request)


def test_no_kind_is_watched_twice(tmp_path: Path) -> None:
    async def story() -> Counter[str]:
        store = Store.open(":memory:")
        server = Counting(store)
        await server.start()
        state_dir, options = StateDir(tmp_path), UpOptions(pretend_gpus=1, allow_root=True)
        host, endpoints = detected(state_dir, options), Endpoints(server, state_dir, options)
        quota = QuotaEnforcement(store, LifecycleConfig())
        made = Installation(state_dir, options).parts(server, host, quota, endpoints)
        parts = [asyncio.create_task(each) for each in made]
        async with asyncio.timeout(LIMIT_S):
            await server.all_begun.wait()
        for each in parts:
            each.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await server.close()
        store.close()
        return server.watches

    watches = asyncio.run(story())
    # The history resumes from the revision that it recorded last, so it has a watch of its own.
    most = dict.fromkeys(watches, 1) | {"workloads": 2}
    assert {} == {kind: count for kind, count in watches.items() if count > most[kind]}
