# SPDX-License-Identifier: Apache-2.0
"""Reads `skips.toml`, which lists all skipped suites and cases, with reasons."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("skips.toml")


class Skips:
    def __init__(self, text: str | None = None) -> None:
        table = tomllib.loads(_FILE.read_text() if text is None else text)
        self.suites: dict[str, str] = table.get("suites", {})
        self.inputs: dict[str, dict[str, str]] = table.get("inputs", {})
        self.empty: dict[str, dict[str, str]] = table.get("empty", {})
        self.cases: dict[str, str] = table.get("cases", {})

    def reason(
        self,
        suite: str,
        case: str,
        inputs: Collection[str] = (),
        expected: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Why a case with these inputs and expectations is not run; None when it must be."""
        if case in self.cases:
            return self.cases[case]
        for pattern, reason in self.suites.items():
            if fnmatch.fnmatchcase(suite, pattern):
                return reason
        for name, reason in self.inputs.get(suite, {}).items():
            if name in inputs:
                return reason
        for name, reason in self.empty.get(suite, {}).items():
            if not (expected or {}).get(name):
                return reason
        return None
