# SPDX-License-Identifier: Apache-2.0
"""A controller starts while long lists are still being read."""

from __future__ import annotations

from control.objects import job
from control.stage import Stage, run_scene


def test_jobs_at_the_beginning_of_a_long_list_are_reconciled() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.stop()
        await stage.api.apply(job("one"), job("two"))
        stage.api.page_s = 1.0
        stage.start()
        await stage.rest(20)
        assert not stage.suspended("one")
        assert not stage.suspended("two")

    run_scene(scene)
