# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions of job kinds: those of their operators, or minimal ones.

`scripts/operators` and `scripts/autoscalers` provide the first from Go modules. The embedded server
gets the second, so that its tests need nothing but this repository.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import yaml

from kuota.api.base import Json
from kuota.kube.resources import CRDS

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCRIPTS = Path(__file__).parents[2] / "scripts"


@cache
def _printed(script: str) -> dict[str, Path]:
    command = [str(_SCRIPTS / script), "--cached"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return {name: Path(path) for name, path in map(str.split, done.stdout.splitlines())}


@cache
def provided() -> dict[str, Path]:
    """The controllers that `make kube` has provided, by name."""
    found = _printed("operators") | _printed("autoscalers") | _printed("kwok")
    return {name: path for name, path in found.items() if name != "crds"}


@cache
def folders() -> dict[str, Path]:
    """The folders with the definitions of operators and autoscalers, by name."""
    roots = (_printed(each).get("crds") for each in ("operators", "autoscalers"))
    return {each.name: each for root in roots if root is not None for each in root.iterdir()}


@cache
def of_operators() -> dict[str, Json]:
    """The definitions of all operators and autoscalers, by name; empty if there are none."""
    found = [each for name in folders() for each in of_operator(name)]
    return {each["metadata"]["name"]: each for each in found}


@cache
def of_operator(name: str) -> list[Json]:
    """The definitions of one operator. Its controller may need those of all its kinds to start.

    They have megabytes, so the loader in C matters.
    """
    folder = folders().get(name)
    files = sorted(folder.glob("*.yaml")) if folder is not None else []
    return [yaml.load(each.read_text(), Loader=_LOADER) for each in files]


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
