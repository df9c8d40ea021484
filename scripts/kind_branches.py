# SPDX-License-Identifier: Apache-2.0
"""Rejects code that treats one job kind specially outside the files of that kind.

The generic packages must neither compare a value with the name of a job kind nor import the module
of one. What is specific to a kind belongs into `src/kuota/bridge/jobs/`, behind its interface.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from kuota.api.config.frameworks import FRAMEWORKS

ROOT = Path(__file__).parents[1] / "src" / "kuota"
GENERIC = (
    "bridge/*.py",
    "bridge/job_pass",
    "control",
    "engine",
    "metrics",
    "sim",
    "view",
    "webhook",
)
SHARED = frozenset(
    {
        "ancestor",
        "composable",
        "dispatch",
        "fields",
        "job_webhook",
        "kind",
        "members",
        "pod_parent",
        "registry",
        "template_kind",
        "topology_request",
    }
)
"""The modules of `bridge/jobs` that concern every kind."""
KINDS = frozenset(each.kind for each in FRAMEWORKS.values())
ALLOWED = {
    ("sim/scenario.py", "Job"): "decodes Jobs of a plan in order to report all faults of types",
    ("bridge/admission.py", "Pod"): "Kueue releases the quota of a Workload that Pods own at once",
}
"""Comparisons that remain, with reasons."""
IMPORTS = {"bridge/pod_import.py": "imports Pods, and nothing else"}
"""Imports that remain, with reasons."""


def main() -> None:
    found = [fault for path in _files() for fault in _faults(path)]
    for each in found:
        print(each)
    sys.exit(1 if found else 0)


def _files() -> Iterator[Path]:
    for pattern in GENERIC:
        yield from sorted(ROOT.glob(pattern if pattern.endswith(".py") else f"{pattern}/**/*.py"))


def _faults(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            for kind in _kinds_in(node):
                if (name, kind) not in ALLOWED:
                    yield f"{name}:{node.lineno}: compares with {kind}; ask the job kind instead"
        elif (
            isinstance(node, ast.ImportFrom)
            and name not in IMPORTS
            and _specific(node.module or "")
        ):
            yield f"{name}:{node.lineno}: imports {node.module}, which belongs to one job kind"


def _kinds_in(node: ast.Compare) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and each.value in KINDS:
            yield str(each.value)


def _specific(module: str) -> bool:
    package, _, name = module.rpartition(".")
    return package.endswith("jobs") and name not in SHARED


if __name__ == "__main__":
    main()
