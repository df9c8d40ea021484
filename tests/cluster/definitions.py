# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions of job kinds: those of their operators, or minimal ones.

`scripts/operators` provides the first from the operators' Go modules. The embedded server gets the
second, so that its tests need nothing but this repository.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import yaml

from kuota.api.base import Json
from kuota.kube.resources import CRDS

_SCRIPT = Path(__file__).parents[2] / "scripts" / "operators"


@cache
def provided() -> dict[str, Path]:
    """What `make kube` has provided: the folder `crds` and controllers by name."""
    command = [str(_SCRIPT), "--cached"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return {name: Path(path) for name, path in map(str.split, done.stdout.splitlines())}


@cache
def of_operators() -> dict[str, Json]:
    """The definitions of all operators, by name; empty if there are none."""
    folder = provided().get("crds")
    files = sorted(folder.glob("*/*.yaml")) if folder else []
    found = [yaml.safe_load(each.read_text()) for each in files]
    return {each["metadata"]["name"]: each for each in found}


def minimal(group: str, version: str, plural: str, kind: str) -> Json:
    """A definition that accepts everything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [served | {"schema": {"openAPIV3Schema": schema}}],
        },
    }
