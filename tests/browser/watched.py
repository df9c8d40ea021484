# SPDX-License-Identifier: Apache-2.0
"""Somebody who looks at the dashboard. Errors of scripts, violations of the policy, and requests to
other hosts fail the test, whatever it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

DESK = {"width": 1280, "height": 860}
PHONE = {"width": 360, "height": 740}
EVERYTHING = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""The tags of all rules."""
LOOK = ("color-contrast", "target-size", "scrollable-region-focusable")
"""The rules whose result depends on colors and on the size of the screen."""
_EXPECTED = ("Failed to load resource", "net::ERR_")
"""The browser reports responses that tests ask for, such as 401."""


class Visitor:
    """A page of the browser, with words for what people do."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.faults: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: ConsoleMessage) -> None:
        serious = message.type in ("error", "warning")
        if serious and not any(each in message.text for each in _EXPECTED):
            self.faults.append(f"{message.type}: {message.text}")

    def open(self, path: str = "", heading: str = "") -> None:
        """Open an address below the dashboard, and wait for its heading."""
        self.page.goto(self.base + path)
        self.sees_heading(heading)

    def sees_heading(self, heading: str = "") -> None:
        found = self.page.locator("main h1")
        expect(found).to_have_text(heading) if heading else expect(found).to_be_attached()

    def sees_live(self) -> None:
        expect(self.page.locator(".connection")).to_have_text("Live")

    def text(self, words: str) -> Locator:
        return self.page.get_by_text(words)

    def focused(self) -> str:
        """The text or the label of the element with the focus."""
        return str(
            self.page.evaluate(
                "() => (document.activeElement.getAttribute('aria-label')"
                " ?? document.activeElement.textContent).trim()"
            )
        )

    def press(self, *keys: str) -> None:
        for each in keys:
            self.page.keyboard.press(each)

    def address(self) -> str:
        """The address below the dashboard."""
        return str(self.page.url).removeprefix(self.base)

    def overflow(self) -> int:
        """How many pixels the page is wider than the screen."""
        return int(
            self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        )

    def violations(self, rules: Sequence[str] = EVERYTHING) -> list[str]:
        """The accessibility rules that the page breaks, and where."""
        kind = "tag" if rules is EVERYTHING else "rule"
        options = {"runOnly": {"type": kind, "values": list(rules)}}
        found: dict[str, Any] = Axe().run(self.page, options=options).response
        return [
            f"{each['id']}: {each['help']}: {[one['html'] for one in each['nodes'][:3]]}"
            for each in found["violations"]
        ]

    def strangers(self) -> list[str]:
        """The requests to other hosts."""
        own = urlsplit(self.base).netloc
        return [
            each
            for each in self.requests
            if urlsplit(each).netloc != own and not each.startswith("data:")
        ]


@contextmanager
def visiting(browser: Browser, base: str, **options: Any) -> Iterator[Visitor]:
    """Open a window of its own, and report at its end what must never happen."""
    context = browser.new_context(
        **{"viewport": DESK, "color_scheme": "light", "reduced_motion": "reduce"} | options
    )
    visitor = Visitor(context.new_page(), base)
    try:
        yield visitor
    finally:
        context.close()
    assert not visitor.faults, visitor.faults
    assert not visitor.strangers(), visitor.strangers()
