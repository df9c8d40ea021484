# SPDX-License-Identifier: Apache-2.0
"""Whatever users write into names, labels, messages and logs, it stays text."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from .canned import SESSION, Canned
from .samples import hostile, lab
from .test_pages import PAGES
from .watched import Visitor

MARKUP = " ".join(
    (
        "<img src=x onerror=window.broken=1>",
        "\"'><script>window.broken=1</script>",
        "<svg/onload=window.broken=1>",
        "</bdi></a></select></title><iframe srcdoc='<script>parent.broken=1</script>'>",
        "${window.broken=1}{{window.broken=1}}&lt;b&gt;",
        "x\u202egpj.exe\u0000\u001b[31m",
    )
)
ATTACKS = (MARKUP, "javascript:window.broken=1", "__proto__")
PARAMETERS = (
    *("q", "state", "namespace", "queue", "user", "sort", "flavor", "resource"),
    *("since", "by", "team", "pod", "outcome"),
)
ELEMENTS = "script:not([src]), img:not([src^='/dashboard/']), iframe, object, embed"


@pytest.mark.parametrize("attack", ATTACKS, ids=["markup", "javascript", "prototype"])
def test_text_of_users_stays_text_on_every_page(
    canned: Canned, visitor: Visitor, attack: str
) -> None:
    canned.models = hostile(lab(6), lambda text: attack)
    canned.session = {**SESSION, "user": attack, "role": attack, "groups": [attack]}
    canned.log = f"{attack}\n" * 3
    for path in PAGES:
        visitor.open(path)
        expect(visitor.page.locator(".loading")).to_have_count(0)
        _unharmed(visitor, path)
    visitor.open("workloads/vision/job-0001")
    visitor.page.get_by_role("button", name="Show").click()
    expect(visitor.page.locator(".log-lines")).not_to_be_empty()
    visitor.page.get_by_role("button", name="Change priority…").click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    _unharmed(visitor, "dialog")


def test_messages_of_the_server_stay_text(canned: Canned, visitor: Visitor) -> None:
    canned.refusal = ATTACKS[1]
    visitor.open("workloads/vision/job-0001")
    visitor.page.get_by_role("button", name="Hold…").click()
    visitor.page.get_by_role("button", name="Hold", exact=True).click()
    expect(visitor.page.get_by_role("alert")).to_have_text(ATTACKS[1])
    canned.send("error", {"code": 403, "message": "<img src=x onerror=window.broken=1>"})
    expect(visitor.text("<img src=x onerror")).to_be_visible()
    _unharmed(visitor, "error")


@pytest.mark.parametrize("attack", ATTACKS, ids=["markup", "javascript", "prototype"])
def test_text_of_the_address_stays_text(visitor: Visitor, attack: str) -> None:
    query = urlencode(dict.fromkeys(PARAMETERS, attack))
    for path in ("workloads", "", "topology", "nodes", "teams", "history"):
        visitor.open(f"{path}?{query}")
        expect(visitor.page.locator(".loading")).to_have_count(0)
        _unharmed(visitor, path)


def test_links_lead_only_to_the_dashboard(canned: Canned, visitor: Visitor) -> None:
    canned.models = hostile(lab(6), lambda text: "javascript:window.broken=1//../../..?#")
    for path in PAGES:
        visitor.open(path)
        expect(visitor.page.locator(".loading")).to_have_count(0)
        links = visitor.page.eval_on_selector_all("a", "(all) => all.map((each) => each.href)")
        assert all(each.startswith((visitor.base, "#")) for each in links), links


def _unharmed(visitor: Visitor, where: str) -> None:
    assert visitor.page.evaluate("() => window.broken") is None, where
    assert 0 == visitor.page.locator(ELEMENTS).count(), where
