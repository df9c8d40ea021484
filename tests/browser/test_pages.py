# SPDX-License-Identifier: Apache-2.0
"""Every page: accessibility rules, on a desk and on a phone, in light and in dark colors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec import to_builtins
from playwright.sync_api import Browser, expect

from kuota.cli.waste import TITLES as WASTE_TITLES
from kuota.view.workload_state import LiveState

from .canned import Canned
from .samples import lab, row
from .watched import DESK, EVERYTHING, LOOK, PHONE, Visitor, visiting

PAGES = {
    "": "Quota",
    "workloads": "Jobs",
    "workloads?q=nothing": "Jobs",
    "queues/vision": "vision",
    "workloads/vision/job-0001?pod=train-0001-abcde": "train-0001",
    "topology": "Topology",
    "nodes": "Nodes and devices",
    "teams": "Teams over time",
    "history": "History",
    "nowhere": "Not found",
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True},
}


@pytest.mark.parametrize("look", LOOKS)
def test_pages_obey_the_rules_of_accessibility(browser: Browser, canned: Canned, look: str) -> None:
    with visiting(browser, canned.base, **LOOKS[look]) as visitor:
        for path, heading in PAGES.items():
            visitor.open(path, heading)
            expect(visitor.page.locator(".loading")).to_have_count(0)
            assert [] == visitor.violations(EVERYTHING if look == "light" else LOOK), path
            assert visitor.overflow() <= 0, path


def test_lists_name_the_preemptor_to_those_who_may_see_it(canned: Canned, visitor: Visitor) -> None:
    rule, name = "(prioritization in the ClusterQueue)", "<b>$&</b>"
    hidden = to_builtins(row(1, LiveState.PREEMPTED)) | {"why": f"by another workload {rule}"}
    by = {"kind": "Workload", "name": name, "namespace": "research"}
    named = hidden | {"key": "vision/named", "name": "named", "preemptedBy": by}
    canned.models["workloads"] = {"rows": [hidden, named]}
    visitor.open("workloads", "Jobs")
    for words in (f"Workload {name} in namespace research", "another workload"):
        expect(visitor.text(f"preempted by {words} {rule}")).to_be_visible()


def test_the_sign_in_page_obeys_the_rules_of_accessibility(
    canned: Canned, visitor: Visitor
) -> None:
    canned.session = None
    visitor.open("", "Sign in to Kuota")
    assert [] == visitor.violations()
    button = visitor.page.get_by_role("button", name="Colors").bounding_box()
    assert button is not None
    assert button["x"] > DESK["width"] / 2


def test_pages_without_content_say_what_to_do(canned: Canned, visitor: Visitor) -> None:
    canned.models = {
        "tree": {"roots": [], "loans": [], "cyclic": []},
        "workloads": {"rows": []},
        "topology": {"flavors": [], "notes": []},
        "nodes": {"nodes": [], "note": ""},
        "teams": lab()["teams"] | {"teams": []},
        "usage": {"items": []},
        "waste": {"items": []},
        "history": {"items": [], "remaining": 0},
    }
    for path, words in {
        "": "There are no queues yet",
        "workloads": "There are no jobs yet",
        "topology": "No flavor has a topology",
        "nodes": "There are no nodes",
        "teams": "Nothing is recorded in this period",
        "history": "No jobs in this period",
    }.items():
        visitor.open(path)
        expect(visitor.page.get_by_role("heading", name=words)).to_be_visible()
        assert [] == visitor.violations(), path


def test_the_teams_page_shows_waste_by_cause_as_the_command_does(visitor: Visitor) -> None:
    visitor.open("teams", "Teams over time")
    table = visitor.page.get_by_role("group", name="Waste").get_by_role("table")
    titles = [each.replace("-", " ") for each in WASTE_TITLES.values()]
    expect(table.get_by_role("columnheader")).to_have_text(
        ["Team", "Resource hours", *(each.capitalize() for each in titles), "Total"]
    )
    expect(table.get_by_role("row").nth(1).get_by_role("cell")).to_have_text(
        ["vision", "GPU", "4.2", "12.5", "0", "0.35", "18.4", "35.5"]
    )
    # There are devices, so the hours of CPUs are not shown.
    expect(table.get_by_role("row")).to_have_count(3)


def test_pods_without_a_workload_are_named_on_their_node(visitor: Visitor) -> None:
    visitor.open("nodes", "Nodes and devices")
    expect(visitor.page.get_by_text("Pod vision/exporter", exact=True)).to_be_visible()


def test_charts_name_the_step_that_their_figures_are_averages_of(visitor: Visitor) -> None:
    visitor.open("teams", "Teams over time")
    words = visitor.page.locator(".chart .when").first
    expect(words).to_have_text(re.compile(r"^\d+ \w+, \d\d:\d\d – (\d+ \w+, )?\d\d:\d\d$"))
    expect(visitor.page.get_by_text("now", exact=True)).to_have_count(0)


def test_the_tables_of_a_job_and_a_queue_fit_on_a_phone(browser: Browser, canned: Canned) -> None:
    with visiting(browser, canned.base, **LOOKS["phone"]) as visitor:
        for path in ("workloads/vision/job-0001", "queues/vision"):
            visitor.open(path)
            visitor.sees_live()
            hidden = visitor.page.locator(".scroll-x").evaluate_all(
                "all => all.map(each => each.scrollWidth - each.clientWidth)"
            )
            assert hidden
            assert set(hidden) == {0}, path
        queues = visitor.page.get_by_role("group", name="LocalQueues").get_by_role("table")
        expect(queues.get_by_role("row").get_by_role("cell")).to_have_count(6)


def test_the_history_tells_jobs_that_run_from_those_that_wait(
    canned: Canned, visitor: Visitor
) -> None:
    first = canned.models["history"]["items"][0]
    states = ("Running", "Waiting", "Deactivated", "Succeeded")
    canned.models["history"]["items"] = [
        {**first, "workload": each, "state": each, "outcome": "", "finished": ""} for each in states
    ]
    visitor.open("history", "History")
    expect(visitor.page.locator(".virtual-row .state")).to_have_text(states)
    visitor.page.get_by_role("combobox", name="Outcome").select_option("Waiting")
    expect(visitor.page.locator(".virtual-row .state")).to_have_text(["Waiting"])


def test_the_age_of_a_job_is_the_time_since_its_creation(visitor: Visitor) -> None:
    visitor.open("workloads?state=succeeded&q=train-0003", "Jobs")
    expect(visitor.page.locator(".virtual-row .cell-age")).to_have_text(re.compile("^[4-9]m"))


def test_colors_follow_the_choice_of_the_viewer(visitor: Visitor) -> None:
    visitor.open("")
    light = visitor.page.evaluate("() => getComputedStyle(document.body).color")
    button = visitor.page.get_by_role("button", name="Colors")
    button.click()
    button.click()
    expect(button).to_have_accessible_name("Colors: dark. Change to system")
    dark = visitor.page.evaluate("() => getComputedStyle(document.body).color")
    assert light != dark
    visitor.page.reload()
    expect(button).to_have_accessible_name("Colors: dark. Change to system")
