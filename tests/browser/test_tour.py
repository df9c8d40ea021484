# SPDX-License-Identifier: Apache-2.0
"""A tour of the dashboard of a running machine. `make screenshots` keeps its pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from up.machine import Machine

from .scene import MARKUP, lab
from .watched import PHONE, Visitor, visiting

LONG_MS = 20_000
"""The machine that runs the tests also runs the jobs."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with lab() as found:
        yield found


@pytest.fixture
def tourist(browser: Browser, machine: Machine) -> Iterator[Visitor]:
    """Somebody who opened the link of `kuota dashboard`."""
    link = machine.kuota("dashboard", "--print").strip()
    base = link.partition("sign-in")[0]
    with visiting(browser, base, ignore_https_errors=True) as visitor:
        visitor.page.set_default_timeout(LONG_MS)
        visitor.open(link.removeprefix(base), "Quota")
        visitor.sees_live()
        yield visitor


def picture(visitor: Visitor, path: Path) -> None:
    """Save what the window shows, with few colors, so that the file is small."""
    taken = Image.open(io.BytesIO(visitor.page.screenshot(animations="disabled")))
    few = taken.convert("RGB").quantize(192, dither=Image.Dither.NONE)
    path.parent.mkdir(exist_ok=True)
    few.save(path, optimize=True)


def test_a_tour(tourist: Visitor, images: Path) -> None:
    page = tourist.page
    expect(tourist.text("borrows 1").first).to_be_visible()
    picture(tourist, images / "quota.png")

    page.get_by_role("link", name="vision", exact=True).click()
    tourist.sees_heading("vision")
    expect(page.locator(".virtual-row").first).to_be_visible()
    picture(tourist, images / "queue.png")

    page.get_by_role("link", name="train", exact=True).click()
    tourist.sees_heading("train")
    expect(page.locator(".timeline").get_by_text("preempted", exact=True)).to_be_visible()
    expect(page.locator(".explanation")).to_be_visible()
    assert [] == tourist.violations()
    picture(tourist, images / "job.png")

    page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(page.locator(".virtual-row")).to_have_count(10)
    assert [] == tourist.violations()
    picture(tourist, images / "jobs.png")

    page.get_by_role("link", name="Nodes", exact=True).click()
    expect(page.locator(".device.held")).to_have_count(8)
    assert [] == tourist.violations()
    picture(tourist, images / "nodes.png")

    tourist.open("teams?since=1h", "Teams over time")
    expect(page.locator(".chart canvas").first).to_be_visible()
    expect(page.get_by_role("cell", name="speech").first).to_be_visible()
    # Times of Workloads are whole seconds, so a run that is preempted at once wastes nothing.
    expect(page.get_by_role("heading", name="Waste")).to_be_visible()

    tourist.open("history", "History")
    expect(page.locator(".state", has_text="Failed")).to_be_visible()
    tourist.open("topology", "Topology")
    tourist.sees_live()


def test_a_tour_on_a_phone_in_the_dark(browser: Browser, machine: Machine, images: Path) -> None:
    link = machine.kuota("dashboard", "--print").strip()
    base = link.partition("sign-in")[0]
    look = {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 2}
    with visiting(browser, base, ignore_https_errors=True, **look) as visitor:
        visitor.open(link.removeprefix(base), "Quota")
        visitor.sees_live()
        assert visitor.overflow() <= 0
        picture(visitor, images / "phone.png")


def test_pictures_of_sample_data(visitor: Visitor, images: Path) -> None:
    """Racks, and weeks of usage: what a machine that has just started does not have."""
    visitor.open("topology", "Topology")
    expect(visitor.page.locator(".domain.leaf").first).to_be_visible()
    picture(visitor, images / "topology.png")
    visitor.open("teams", "Teams over time")
    expect(visitor.page.locator(".chart canvas")).to_have_count(6)
    picture(visitor, images / "teams.png")


def test_text_of_jobs_stays_text(tourist: Visitor) -> None:
    tourist.open("workloads?q=hostile", "Jobs")
    tourist.page.get_by_role("link", name="hostile").click()
    tourist.sees_heading("hostile")
    tourist.page.get_by_role("button", name="Show log").click()
    log = tourist.page.locator(".log-lines")
    expect(log).to_contain_text(MARKUP)
    expect(log).to_contain_text("\nred")
    assert tourist.page.evaluate("() => window.broken") is None


def test_a_log_is_followed(tourist: Visitor) -> None:
    tourist.open("workloads?q=pretrain", "Jobs")
    tourist.page.get_by_role("link", name="pretrain").click()
    tourist.page.get_by_role("button", name="Show log").click()
    log = tourist.page.locator(".log-lines")
    expect(log).to_contain_text("step 1, loss 0.9999")
    shown = len(log.inner_text().splitlines())
    expect(log).to_contain_text(f"step {shown + 2},", timeout=LONG_MS)


def test_a_job_is_held_and_released(tourist: Visitor, machine: Machine) -> None:
    page = tourist.page
    tourist.open("workloads?q=align", "Jobs")
    page.get_by_role("link", name="align").click()
    page.get_by_role("button", name="Hold…").click()
    page.get_by_role("button", name="Hold", exact=True).click()
    expect(page.locator(".page-head .state")).to_have_text("Deactivated", timeout=LONG_MS)
    expect(page.locator(".entry-head", has_text="held")).to_be_visible()
    expect(page.locator(".timeline")).to_contain_text("by user admin")
    page.get_by_role("button", name="Release…").click()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.locator(".page-head .state")).to_have_text("Pending", timeout=LONG_MS)
    page.get_by_role("button", name="Change priority…").click()
    page.get_by_label("Priority class").select_option("urgent")
    page.get_by_role("button", name="Change priority", exact=True).click()
    expect(tourist.text("1000 (urgent)")).to_be_visible(timeout=LONG_MS)


def test_a_queue_is_stopped_and_resumed(tourist: Visitor) -> None:
    page = tourist.page
    tourist.open("queues/speech", "speech")
    page.get_by_role("button", name="Stop queue…").first.click()
    page.get_by_role("button", name="Stop queue", exact=True).click()
    expect(page.locator(".page-head .state")).to_contain_text("stopped", timeout=LONG_MS)
    page.get_by_role("button", name="Resume queue…").first.click()
    page.get_by_role("button", name="Resume queue", exact=True).click()
    expect(page.locator(".page-head .state")).to_have_text("active", timeout=LONG_MS)


def test_a_member_sees_only_the_own_team(browser: Browser, machine: Machine) -> None:
    kubeconfig = machine.state / "ann.kubeconfig"
    machine.kuota("token", "create", "ann", "--team", "vision", "--out", str(kubeconfig))
    link = machine.kuota("dashboard", "--print", "--kubeconfig", str(kubeconfig)).strip()
    base = link.partition("sign-in")[0]
    with visiting(browser, base, ignore_https_errors=True) as visitor:
        visitor.open(link.removeprefix(base), "Quota")
        visitor.open("workloads", "Jobs")
        expect(visitor.page.locator(".virtual-row").first).to_be_visible()
        teams = visitor.page.get_by_role("combobox", name="Team").locator("option")
        assert ["all", "vision"] == teams.all_text_contents()
