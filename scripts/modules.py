# SPDX-License-Identifier: Apache-2.0
"""Keeps the list of modules in ARCHITECTURE.md: one line each, the first of the module's docstring.

It is written between its two marks; with `--check` it is only said whether the list is fresh.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("src/kuota")
PAGE = Path("ARCHITECTURE.md")
BEGIN, END = "<!-- modules: written by make map -->\n", "<!-- end of modules -->\n"


def listing(root: Path) -> Iterator[str]:
    """The packages under `root` in order of their names, each with its modules as a table."""
    for package in sorted({path.parent for path in root.rglob("*.py")}):
        modules = [path for path in sorted(package.glob("*.py")) if described(path)]
        if modules:
            yield f"\n`{package}/`\n\n| Module | |\n|---|---|\n"
            yield from (f"| `{path.name}` | {first_line(path)} |\n" for path in modules)
    yield "\n"


def described(path: Path) -> bool:
    """True of modules that say something; an `__init__` that only marks a package does not."""
    return path.name != "__init__.py" or bool(first_line(path))


def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


def with_listing(page: str, modules: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE}: the marks of the module list are gone")
    return f"{before}{BEGIN}{modules}{END}{after}"


def main(argv: list[str]) -> int:
    old = PAGE.read_text()
    new = with_listing(old, "".join(listing(ROOT)))
    if argv == ["--check"]:
        if new != old:
            print(f"{PAGE}: the list of modules is stale; run make map", file=sys.stderr)
        return 1 if new != old else 0
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
