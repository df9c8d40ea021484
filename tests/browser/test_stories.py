# SPDX-License-Identifier: Apache-2.0
"""What people do: search, share, follow, act, sign in, with a mouse and with keys alone."""

from __future__ import annotations

import re

import msgspec
from playwright.sync_api import expect

from kuota.view.workload_state import LiveState

from .canned import SESSION, Canned
from .samples import ago, lab, row
from .watched import Visitor


def test_search_and_filters_are_in_the_address(visitor: Visitor) -> None:
    visitor.open("workloads", "Jobs")
    visitor.page.get_by_role("searchbox").fill("train-00")
    visitor.page.get_by_role("combobox", name="Team").select_option("vision")
    visitor.page.get_by_role("combobox", name="State").select_option("waiting")
    visitor.page.get_by_role("button", name="Priority").click()
    assert "workloads?q=train-00&namespace=vision&state=waiting&sort=priority" == visitor.address()
    shown = visitor.page.locator(".virtual-row .cell-job a").all_text_contents()
    assert shown
    visitor.page.reload()
    expect(visitor.page.locator(".virtual-row .cell-job a").first).to_have_text(shown[0])
    assert shown == visitor.page.locator(".virtual-row .cell-job a").all_text_contents()
    expect(visitor.page.get_by_role("columnheader", name="Priority")).to_have_attribute(
        "aria-sort", "ascending"
    )
    visitor.page.get_by_role("link", name="Show all").click()
    assert "workloads" == visitor.address()
    expect(visitor.page.get_by_role("searchbox")).to_have_value("")


def test_a_job_can_be_followed_from_queue_to_log(visitor: Visitor) -> None:
    visitor.open("", "Quota")
    visitor.page.get_by_role("link", name="vision", exact=True).click()
    visitor.sees_heading("vision")
    visitor.page.get_by_role("link", name="train-0001").click()
    visitor.sees_heading("train-0001")
    for step in ("submitted", "waiting", "admitted", "preempted"):
        expect(visitor.page.locator(".timeline").get_by_text(step, exact=True)).to_be_visible()
    visitor.page.get_by_role("button", name="Show log of train-0001-abcde").click()
    expect(visitor.page.locator(".log-lines")).to_have_text("first line\nsecond line")
    visitor.page.go_back()
    visitor.sees_heading("vision")


def test_a_finished_job_says_when_it_finished(canned: Canned, visitor: Visitor) -> None:
    finished = {"state": "SUCCEEDED", "since": ago(10), "finished": ago(10)}
    canned.models["workload"]["row"] |= finished
    visitor.open("workloads/vision/job-0001", "train-0001")
    expect(visitor.page.locator(".lead")).to_have_text(re.compile(r"Succeeded\s+1\dm\w*\s+ago$"))


def test_the_heading_of_a_new_page_gets_the_focus(visitor: Visitor) -> None:
    visitor.open("", "Quota")
    visitor.press("Tab")
    assert "Skip to content" == visitor.focused()
    visitor.page.get_by_role("link", name="vision", exact=True).press("Enter")
    visitor.sees_heading("vision")
    visitor.sees_live()
    assert "vision" == visitor.focused()
    assert "vision · Queue · Kuota" == visitor.page.title()


def test_keys_alone_hold_a_job(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads/vision/job-0001", "train-0001")
    hold = visitor.page.get_by_role("button", name="Hold…")
    hold.focus()
    visitor.press("Enter")
    dialog = visitor.page.get_by_role("dialog", name="Hold this workload?")
    expect(dialog).to_be_visible()
    visitor.press("Escape")
    expect(dialog).to_have_count(0)
    expect(hold).to_be_focused()
    assert [] == canned.posted
    visitor.press("Enter", "Tab", "Enter")
    expect(visitor.text("done by csrf-token")).to_be_visible()
    expected = {"action": "hold", "kind": "Workload", "namespace": "vision", "name": "job-0001"}
    assert [expected] == canned.posted


def test_priority_and_queues_change_after_a_confirmation(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads/vision/job-0001", "train-0001")
    visitor.page.get_by_role("button", name="Change priority…").click()
    visitor.page.get_by_label("Priority class").select_option("urgent")
    visitor.page.get_by_role("button", name="Change priority", exact=True).click()
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    visitor.open("queues/vision", "vision")
    visitor.page.get_by_role("button", name="Stop queue…").first.click()
    visitor.page.get_by_label("Also evict").check()
    assert [] == visitor.violations()
    visitor.page.get_by_role("button", name="Stop queue", exact=True).click()
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    assert ["setPriority", "stopQueue"] == [each["action"] for each in canned.posted]
    assert ("urgent", True) == (canned.posted[0]["priorityClass"], canned.posted[1]["drain"])


def test_a_priority_class_can_be_replaced_but_not_removed(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads/vision/job-0001", "train-0001")
    visitor.page.get_by_role("button", name="Change priority…").click()
    options = visitor.page.get_by_label("Priority class").get_by_role("option")
    expect(options).to_have_text(["urgent (2000)", "high (1000)"])
    canned.models["workload"]["row"]["priorityClass"] = ""
    visitor.open("workloads/vision/job-0001", "train-0001")
    visitor.page.get_by_role("button", name="Change priority…").click()
    expect(options).to_have_text(["choose one", "urgent (2000)", "high (1000)"])
    visitor.page.get_by_role("button", name="Change priority", exact=True).click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    assert [] == canned.posted
    canned.models["workload"]["priorityClasses"] = []
    visitor.open("workloads/vision/job-0001", "train-0001")
    visitor.page.get_by_role("button", name="Change priority…").click()
    expect(visitor.text("There is no WorkloadPriorityClass.")).to_be_visible()
    change = visitor.page.get_by_role("button", name="Change priority", exact=True)
    expect(change).to_be_disabled()


def test_a_refused_action_says_why(canned: Canned, visitor: Visitor) -> None:
    canned.refusal = "you may not patch workloads in namespace vision"
    visitor.open("workloads/vision/job-0001", "train-0001")
    visitor.page.get_by_role("button", name="Hold…").click()
    visitor.page.get_by_role("button", name="Hold", exact=True).click()
    expect(visitor.page.get_by_role("alert")).to_have_text(canned.refusal)


def test_a_read_only_session_has_no_actions(canned: Canned, visitor: Visitor) -> None:
    canned.session = {**SESSION, "actions": False}
    for path in ("workloads/vision/job-0001", "queues/vision"):
        visitor.open(path)
        visitor.sees_live()
        expect(visitor.page.get_by_role("button", name="…")).to_have_count(0)


def test_actions_that_are_not_permitted_are_not_offered(canned: Canned, visitor: Visitor) -> None:
    changes = {"Workload": ["speech"], "LocalQueue": ["vision"], "ClusterQueue": []}
    canned.session = {**SESSION, "changes": changes}
    visitor.open("workloads/vision/job-0001", "train-0001")
    # Whether the priority may be changed depends on the kind of the job.
    expect(visitor.page.locator(".actions button")).to_have_text(re.compile("Change priority"))
    visitor.open("queues/vision", "vision")
    expect(visitor.page.locator(".actions button")).to_have_text(re.compile("LocalQueue vision"))


def test_changes_arrive_without_a_reload(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads?q=train-0000", "Jobs")
    state = visitor.page.locator(".virtual-row .state")
    expect(state).to_have_text("Pending")
    changed = msgspec.to_builtins(row(0, LiveState.ADMITTED, "research"))
    canned.send("change", {"upsert": [changed], "remove": []})
    expect(state).to_have_text("Admitted")
    visitor.open("", "Quota")
    visitor.sees_live()
    model = lab()["tree"]
    model["roots"][0]["pending"] = 17
    canned.send("change", {"model": model})
    expect(visitor.text("17 pending")).to_be_visible()


def test_a_lost_connection_is_shown_and_comes_back(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads", "Jobs")
    visitor.sees_live()
    canned.break_streams()
    expect(visitor.page.locator(".connection")).to_have_text("Reconnecting")
    visitor.sees_live()


def test_the_end_of_a_session_leads_to_the_sign_in_page(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads", "Jobs")
    visitor.sees_live()
    canned.session = None
    canned.send("error", {"code": 401, "message": "signed out"})
    visitor.sees_heading("Sign in to Kuota")


def test_a_one_time_link_signs_in_and_leaves_the_address(canned: Canned, visitor: Visitor) -> None:
    canned.session = None
    visitor.open("sign-in#code=right", "Quota")
    assert "" == visitor.address()
    assert "code" not in visitor.page.evaluate("() => location.href")
    visitor.page.go_back()
    assert "right" not in visitor.page.url


def test_a_used_link_says_so_and_a_token_helps(canned: Canned, visitor: Visitor) -> None:
    canned.session = None
    visitor.open("sign-in#code=wrong", "Sign in to Kuota")
    expect(visitor.page.get_by_role("alert")).to_have_text(re.compile("is not valid"))
    assert "sign-in" == visitor.address()
    visitor.page.get_by_label("token").fill("right")
    visitor.press("Enter")
    visitor.sees_heading("Quota")


def test_a_missing_workload_is_reported_on_its_page(canned: Canned, visitor: Visitor) -> None:
    visitor.open("workloads/vision/job-0001")
    visitor.sees_live()
    canned.send("error", {"code": 404, "message": "there is no Workload job-0001"})
    expect(visitor.page.get_by_role("alert")).to_contain_text("there is no Workload job-0001")
    expect(visitor.page.locator(".connection")).to_have_text("Not connected")
    assert [] == visitor.violations()
    visitor.page.get_by_role("alert").get_by_role("link", name="history").click()
    visitor.sees_heading("History")
    assert "history?namespace=vision" == visitor.address()


def test_reports_are_asked_for_again(canned: Canned, visitor: Visitor) -> None:
    visitor.page.clock.install()
    visitor.open("history", "History")
    row = visitor.page.locator(".virtual-row").first
    expect(row).to_contain_text("train-0001")
    canned.models["history"]["items"][0]["job"] = "renamed"
    visitor.page.clock.run_for(61_000)
    expect(row).to_contain_text("renamed")
    canned.broken = True
    visitor.page.clock.run_for(61_000)
    expect(visitor.page.locator(".connection")).to_have_text("Reconnecting")
    expect(row).to_contain_text("renamed")
    canned.broken = False
    visitor.page.clock.run_for(61_000)
    expect(visitor.page.locator(".connection")).to_have_text("")
