# SPDX-License-Identifier: Apache-2.0
"""Warns about containers without a command, which a single-machine control plane cannot run."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..core import argv
from ..faults import FieldError, required
from ..rules.report import child, objects
from .environment import Environment
from .templates import pod_templates

MESSAGE = "is not set, and `kuota up` pulls no images, so it has nothing to run"
_FIX = "set the command that runs on this machine"


def pods_without_command(obj: Json, environment: Environment) -> Iterator[FieldError]:
    """Yield a warning for each container without a command if images are not pulled."""
    if environment.pulls_images or obj.get("kind") == "Workload":
        return
    for path, template in pod_templates(obj):
        spec = child(template, "spec")
        at = f"{path}.spec" if path else "spec"
        for field in ("initContainers", "containers"):
            for where, container in objects(spec.get(field), f"{at}.{field}"):
                if not argv(container):
                    yield required(f"{where}.command", MESSAGE, _FIX)
