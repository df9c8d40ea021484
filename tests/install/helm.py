# SPDX-License-Identifier: Apache-2.0
"""Renders the chart with the Helm of `scripts/helm`."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kuota"


@cache
def program() -> str:
    """The path of helm: $HELM, on the PATH, or built before; skips the test without one."""
    chosen = os.environ.get("HELM")
    if chosen:
        return chosen
    command = [str(ROOT / "scripts" / "helm"), "--cached"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return found.partition(" ")[2].strip()


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm. Skips the test if there is none."""
    if not program():
        pytest.skip("no helm in $HELM or on the PATH; `scripts/helm` builds one")
    return subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)


def template(*flags: str, namespace: str = "kueue-system") -> subprocess.CompletedProcess[str]:
    """Run `helm template` with these flags."""
    return helm(
        *("template", "kueue", str(CHART), "--namespace", namespace),
        *("--kube-version", "1.36.0", *flags),
    )


def rendered(*flags: str, namespace: str = "kueue-system") -> list[Json]:
    """The objects of the chart with these flags."""
    done = template(*flags, namespace=namespace)
    assert "" == done.stderr
    return [each for each in load_all(done.stdout) if each]
