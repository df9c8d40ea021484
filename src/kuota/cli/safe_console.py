# SPDX-License-Identifier: Apache-2.0
"""A console of rich that prints texts of other users as they are, without their control codes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from .terminal import escaped, unfiltered


class SafeConsole(Console):
    """Interprets no markup, and escapes control characters in everything that it renders."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("file", unfiltered(sys.stdout))
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            each if each.control else Segment(escaped(each.text), each.style) for each in buffer
        )
