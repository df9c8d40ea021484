# SPDX-License-Identifier: Apache-2.0
"""The kinds, operations and paths of Kueue's webhooks."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.kueue import GROUP
from kuota.bridge.jobs.registry import BUILT_IN

CONVERSION_PATH = "/convert"

_SERVING = ("deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One kind with a webhook. `framework` is its job integration, "" for Kueue's own kinds.

    An `implied` integration is enabled only because others require it: of its objects, only those
    that belong to objects of these others are queued.
    """

    group: str
    version: str
    kind: str
    framework: str = ""
    mutated_on: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ()
    implied: bool = False

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def mutating_path(self) -> str:
        return f"/mutate-{self._suffix}"

    @property
    def validating_path(self) -> str:
        return f"/validate-{self._suffix}"

    @property
    def _suffix(self) -> str:
        # The core group is empty, so the path for Pods is /mutate--v1-pod.
        return f"{self.group.replace('.', '-')}-{self.version}-{self.kind.lower()}"


KUEUE = (
    WebhookTarget(group=GROUP, version="v1beta2", kind="ClusterQueue"),
    WebhookTarget(group=GROUP, version="v1beta2", kind="Cohort", mutated_on=()),
    WebhookTarget(group=GROUP, version="v1beta2", kind="ResourceFlavor"),
    WebhookTarget(group=GROUP, version="v1beta2", kind="Workload", subresources=("status",)),
)
JOBS = tuple(
    WebhookTarget(
        group=each.group,
        version=each.version,
        kind=each.kind,
        framework=name,
        mutated_on=("CREATE", "UPDATE") if name in _SERVING else ("CREATE",),
    )
    for name, each in FRAMEWORKS.items()
)


def targets(frameworks: Iterable[str] | None = None) -> Iterator[WebhookTarget]:
    """Return Kueue's kinds and the kinds of these job integrations, by default of all.

    Integrations that they require are included. Raises ValueError for an unknown integration.
    """
    wanted = set(FRAMEWORKS if frameworks is None else frameworks)
    unknown = sorted(wanted.difference(FRAMEWORKS))
    if unknown:
        known = ", ".join(FRAMEWORKS)
        raise ValueError(f"unknown job integration {', '.join(unknown)}; use one of {known}")
    yield from KUEUE
    for each in JOBS:
        if each.framework in wanted:
            yield each
        elif requiring(each.framework, wanted):
            yield replace(each, implied=True)


def requiring(framework: str, among: Container[str] = FRAMEWORKS.keys()) -> list[str]:
    """Return the integrations among these that require another one."""
    return [e.framework for e in BUILT_IN if framework in e.requires and e.framework in among]
