# SPDX-License-Identifier: Apache-2.0
"""Users who read metrics without a pause do not delay a scraper."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kuota.metrics.families import CollectedFamilies
from kuota.metrics.metrics import Metrics
from kuota.server.auth import METRICS_READERS, Roles
from kuota.server.requests import Request, User
from kuota.up.machine_metrics import MetricsExtension

ANN, SCRAPER = User("ann"), User("prometheus", (METRICS_READERS,))


class NoMetrics:
    def collected(self) -> CollectedFamilies:
        return CollectedFamilies([])


def test_a_scraper_does_not_wait_for_all_requests_of_another_user() -> None:
    served: list[str] = []

    async def read(extension: MetricsExtension, user: User) -> None:
        await extension.answer(Request(method="GET", path="/metrics", user=user))
        served.append(user.name)

    async def story() -> None:
        metrics: Any = NoMetrics()
        extension = MetricsExtension(cast(Metrics, metrics), Roles(lambda _: ""))
        async with asyncio.TaskGroup() as group:
            for user in (*[ANN] * 9, SCRAPER):
                group.create_task(read(extension, user))

    asyncio.run(story())
    assert served.index("prometheus") <= 1
