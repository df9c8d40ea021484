# SPDX-License-Identifier: Apache-2.0
"""A list of 5,000 workloads. How long it takes to load and to scroll is printed, not asserted:
timings depend on the machine and on what else runs there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from kuota.view.workload_state import LiveState

from .canned import Canned
from .samples import lab, row
from .watched import Visitor, visiting

MANY = 5000
STEPS = 60
TRIES = 3
MOST_ROWS = 60
"""The rows of a tall screen, with some above and below it."""


@pytest.fixture
def crowd(browser: Browser) -> Iterator[tuple[Canned, Visitor]]:
    with Canned(lab(MANY)).served() as server, visiting(browser, server.base) as visitor:
        yield server, visitor


@pytest.mark.parametrize("path", ["workloads", "queues/vision"])
def test_the_first_page_contains_the_rows_in_view(
    crowd: tuple[Canned, Visitor], path: str, figures: list[str]
) -> None:
    _, visitor = crowd
    times: list[float] = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        visitor.page.goto(visitor.base + path)
        visitor.page.wait_for_selector(".virtual-row")
        times.append(time.perf_counter() - begun)
    assert 0 < visitor.page.locator(".virtual-row").count() < MOST_ROWS
    figures.append(f"{path} with {MANY:,} jobs: first rows after {1000 * min(times):.0f} ms")


@contextmanager
def _cpu_time(visitor: Visitor) -> Iterator[dict[str, float]]:
    """Measure the CPU time of the page, which other processes do not affect."""
    tools = visitor.page.context.new_cdp_session(visitor.page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def total() -> float:
        found = {
            each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]
        }
        names = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        return 1000 * sum(float(found[each]) for each in names)

    before, spent = total(), {"ms": 0.0}
    yield spent
    spent["ms"] = total() - before


def test_scrolling_renders_only_rows_in_view(
    crowd: tuple[Canned, Visitor], figures: list[str]
) -> None:
    _, visitor = crowd
    visitor.open("workloads", "Jobs")
    visitor.page.wait_for_selector(".virtual-row")
    with _cpu_time(visitor) as spent:
        most = visitor.page.evaluate(
            """async (steps) => {
              const box = document.querySelector(".virtual");
              const step = box.scrollHeight / steps;
              let most = 0;
              for (let at = 0; at < steps; at += 1) {
                box.scrollTop += step;
                await new Promise(requestAnimationFrame);
                most = Math.max(most, document.querySelectorAll(".virtual-row").length);
              }
              return most;
            }""",
            STEPS,
        )
    figures.append(f"scrolling through {MANY:,} jobs: {spent['ms'] / STEPS:.1f} ms of CPU a frame")
    assert most < MOST_ROWS
    expect(visitor.page.locator("[role=table]")).to_have_attribute("aria-rowcount", str(MANY + 1))
    expect(visitor.page.locator(f"[aria-rowindex='{MANY + 1}']")).to_be_visible()


def test_keys_move_through_the_whole_list(crowd: tuple[Canned, Visitor]) -> None:
    _, visitor = crowd
    visitor.open("workloads?sort=job", "Jobs")
    visitor.page.locator(".virtual-row a").first.focus()
    visitor.press("ArrowDown", "ArrowDown")
    assert "train-0002" == visitor.focused()
    visitor.press("End")
    expect(visitor.page.locator(".virtual-row a:focus")).to_have_text("train-4999")
    visitor.press("PageUp", "Home")
    expect(visitor.page.locator(".virtual-row a:focus")).to_have_text("train-0000")
    visitor.page.locator(".virtual").evaluate("(box) => { box.scrollTop = 90000; }")
    expect(visitor.page.locator(".virtual-row a:focus")).to_have_text("train-0000")


def test_changes_appear_while_many_rows_are_shown(crowd: tuple[Canned, Visitor]) -> None:
    server, visitor = crowd
    visitor.open("workloads?q=newcomer", "Jobs")
    expect(visitor.text("No job matches")).to_be_visible()
    added = msgspec.to_builtins(row(1, LiveState.ADMITTED)) | {"key": "a/b", "job": "newcomer"}
    server.send("change", {"upsert": [added], "remove": []})
    expect(visitor.text("1 of 5,001 jobs")).to_be_visible()
    server.send("change", {"upsert": [], "remove": ["a/b"]})
    expect(visitor.text("0 of 5,000 jobs")).to_be_visible()
