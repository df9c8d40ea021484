# SPDX-License-Identifier: Apache-2.0
"""Checks the house limits: length of files and functions, and the licence line on top.

Prints `file:line: fault` for each breach and exits with 1 if there is any. Functions in tests may
be longer, since a table of cases is easier to read in one piece. Generated tables may be longer.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("src", "tests", "bench", "scripts")
FILE_LINES = 400
FUNCTION_LINES = 40
GENERATED = "do not edit."
"""Ends the docstring of a generated file."""
LICENCE = "# SPDX-License-Identifier: Apache-2.0"


def breaches(path: Path, text: str) -> Iterator[str]:
    """Every breach in one Python file, in the order of its lines."""
    lines = text.splitlines()
    if not lines or lines[0] != LICENCE:
        yield f"{path}:1: the first line must be `{LICENCE}`"
    tree = ast.parse(text)
    if path.parts[0] != "tests":
        yield from _long_functions(path, tree)
    if len(lines) > FILE_LINES and not (ast.get_docstring(tree) or "").endswith(GENERATED):
        yield f"{path}:{FILE_LINES + 1}: file has {len(lines)} lines, limit {FILE_LINES}"


def _long_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES:
            yield (
                f"{path}:{node.lineno}: function {node.name} has {length} lines, "
                f"limit {FUNCTION_LINES}"
            )


def main() -> int:
    """Check the tree below the current directory."""
    files = sorted(path for root in ROOTS for path in Path(root).rglob("*.py"))
    found = [breach for path in files for breach in breaches(path, path.read_text())]
    print("\n".join(found) or f"{len(files)} files within the house limits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
