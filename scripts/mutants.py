# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the engine and the bridge: changes the code, and expects a test to fail.

Cosmic Ray generates the mutants: a comparison turned round, a number changed, a condition negated.
A seeded sample of each module is tried, one mutant at a time, on a copy of the source. A mutant
that no test kills must be listed in docs/mutants.md with a verdict; otherwise the command fails.
Cosmic Ray is imported late: only `make mutants` installs it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

PACKAGES = ("engine", "bridge")
VERDICTS = Path("docs/mutants.md")
TESTS = ("tests/engine", "tests/bridge", "tests/scenarios", "tests/conformance")
PYTEST = (
    *("-xq", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"),
    # Long random runs are left out: they are slow, and what they kill they kill by chance.
    *("--hypothesis-seed=0", "--ignore=tests/engine/properties"),
)
TIMEOUT_S = 240.0
"""Tests that take longer count as failed: the mutant does not end."""
ROW = re.compile(
    r"^\| `(?P<module>[^`]+)` \| `(?P<before>.*)` \| `(?P<after>.*)` \| (?P<verdict>.+) \|$"
)


@dataclass(frozen=True)
class Mutant:
    """One changed line of one module, named relative to src/kuota."""

    module: str
    code: str
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, _cell(self.before), _cell(self.after)

    def row(self, verdict: str) -> str:
        module, before, after = self.key
        return f"| `{module}` | `{before}` | `{after}` | {verdict} |"


def _cell(line: str) -> str:
    """A line of code as a cell of a table, which has no room for bars or backquotes."""
    return line.strip().replace("|", "¦").replace("`", "'")


def mutants(module: Path, root: Path, seed: str) -> Iterator[Mutant]:
    """The mutants of a module that a test could notice, in an order that the seed decides."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code, named = module.read_text(), str(module.relative_to(root))
    plain, places = _meaning(code), _places(code)
    random.Random(f"{seed}:{named}").shuffle(places)
    for operator, occurrence in places:
        changed = mutate_code(code, get_operator(operator)(), occurrence)
        if changed is not None and _meaning(changed) not in (plain, None):
            yield Mutant(named, changed, *_difference(code, changed))


def _places(code: str) -> list[tuple[str, int]]:
    """Every operator, once for each place where it applies."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    tree = get_ast(code)
    found = []
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if not operator.arguments():
            positions = (operator().mutation_positions(node) for node in ast_nodes(tree))
            count = sum(1 for each in positions for _ in each)
            found += [(name, occurrence) for occurrence in range(count)]
    return found


def _meaning(code: str) -> str | None:
    """What the code does, without annotations, which nothing runs; None if it is not Python."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def _difference(code: str, changed: str) -> tuple[str, str]:
    """The first line that differs, before and after."""
    for before, after in zip(code.splitlines(), changed.splitlines(), strict=False):
        if before != after:
            return before, after
    return "", ""


def sample(root: Path, named: list[str], per_module: int, seed: str) -> list[Mutant]:
    """Some mutants of every module, the same ones for the same code and seed."""
    chosen: list[Mutant] = []
    for package in PACKAGES:
        for module in sorted((root / package).rglob("*.py")):
            name = str(module.relative_to(root))
            if named and not any(name.startswith(each) for each in named):
                continue
            chosen += islice(mutants(module, root, seed), per_module)
    return chosen


def survives(mutant: Mutant, copy: Path, source: Path, timeout_s: float) -> bool:
    """Whether all tests pass on the mutant. Tests named after the module run first."""
    target = copy / "kuota" / mutant.module
    target.write_text(mutant.code)
    package, stem = mutant.module.split("/")[0], Path(mutant.module).stem
    near = sorted(str(each) for each in Path("tests", package).glob(f"test_{stem}*.py"))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *PYTEST, *near, *TESTS],
            env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        shutil.copy(source / mutant.module, target)
    return done.returncode == 0


def verdicts(text: str) -> dict[tuple[str, str, str], str]:
    """What was found about survivors, by module, line before and line after."""
    found = {}
    for line in text.splitlines():
        if match := ROW.match(line):
            found[match["module"], match["before"], match["after"]] = match["verdict"]
    return found


def run(
    chosen: list[Mutant],
    known: dict[tuple[str, str, str], str],
    limit_s: float,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Try the mutants until the time is up. Returns how many survivors have no verdict."""
    source, began = Path("src/kuota"), time.monotonic()
    killed = listed = tried = 0
    unknown: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(source, Path(folder, "kuota"))
        for mutant in chosen:
            if time.monotonic() - began > limit_s:
                break
            tried += 1
            alive = survives(mutant, Path(folder), source, timeout_s)
            killed += not alive
            if alive and mutant.key in known:
                listed += 1
            elif alive:
                unknown.append(mutant)
                print(mutant.row("?"), flush=True)
            elif mutant.key in known:
                print(f"killed, no longer to be listed: {mutant.row('')}", flush=True)
    left = len(chosen) - tried
    print(
        f"{tried} mutants: {killed} killed, {listed} listed, {len(unknown)} without a verdict"
        + (f"; {left} not tried for lack of time" if left else "")
    )
    return len(unknown)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as engine/tree.py or bridge; all if none")
    parser.add_argument("--per-module", type=int, default=3, help="how many mutants of each module")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="stop after so many seconds")
    parser.add_argument(
        "--timeout-s", type=float, default=TIMEOUT_S, help="of one mutant; more on a busy machine"
    )
    given = parser.parse_args(argv)
    chosen = sample(Path("src/kuota"), given.modules, given.per_module, given.seed)
    known = verdicts(VERDICTS.read_text()) if VERDICTS.exists() else {}
    return 1 if run(chosen, known, given.limit_s, given.timeout_s) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
