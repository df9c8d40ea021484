# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the adapters of Deployments, StatefulSets and LeaderWorkerSets."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from conformance.adapters.webhooks import agree
from conformance.case import Json, Run, check
from conformance.effects import Objects
from conformance.jobs import EVERYWHERE, listed_objects, namespace, stored
from conformance.recorder import whole
from conformance.world import gates_of
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.bridge.effects import Effect
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.job_webhook import faults_of
from kuota.bridge.jobs.pod_parent import PodParent
from kuota.bridge.lifecycle_view import LifecycleConfig

SPACES = ("", "default", "test-ns", "ns")


def config_of(run: Run, *, manage_all: bool = False) -> LifecycleConfig:
    """Every namespace is managed and every integration enabled."""
    return LifecycleConfig(
        gates=gates_of(run),
        manage_all=manage_all,
        namespaces=EVERYWHERE,
        owners=owners_of(FRAMEWORKS),
    )


def validated(
    run: Run,
    kind: PodParent,
    obj: Json,
    old: Json | None = None,
    config: LifecycleConfig | None = None,
) -> None:
    """Compare the faults, and that nothing is accepted with a warning."""
    look_up = stored([*map(namespace, SPACES), *listed_objects(run)])
    found = faults_of(kind, obj, old, look_up, config or config_of(run))
    agree(run.expected["wantErr"], found)
    warnings = kind.warnings(obj, old, owned=False)
    check(warnings == (whole(run.expected.get("wantWarns")) or []), f"unexpected {warnings}")


def carried_out(objects: list[Json], effects: Iterable[Effect]) -> Objects:
    """The objects after these effects."""
    found = Objects(objects)
    found.carry_out(effects)
    return found


def plain(obj: Any) -> Json | None:
    """An object without times, versions and messages, which the tests do not compare."""
    if obj is None:
        return None
    found: Json = copy.deepcopy(whole(obj))
    for field in ("resourceVersion", "deletionTimestamp"):
        found["metadata"].pop(field, None)
    for each in (found.get("status") or {}).get("conditions") or ():
        for field in ("lastTransitionTime", "lastProbeTime", "message", "observedGeneration"):
            each.pop(field, None)
    return found


def in_order(objects: Any) -> list[Json | None]:
    """Plain objects by name."""
    listed = whole(objects) or []
    return [plain(each) for each in sorted(listed, key=lambda each: str(each["metadata"]["name"]))]
