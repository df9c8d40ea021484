# SPDX-License-Identifier: Apache-2.0
"""All job kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .ancestor import GroupKind
from .batch_job import BatchJob
from .kind import JobKind

BUILT_IN: tuple[JobKind, ...] = (BatchJob(),)
"""The kinds that Kuota queues. Others can be added to a `Registry`."""


class Registry:
    """Job kinds by group and kind. The framework, the group and the kind of each are unique."""

    def __init__(self, kinds: Iterable[JobKind] = BUILT_IN) -> None:
        self._kinds: dict[GroupKind, JobKind] = {}
        for each in kinds:
            if each.group_kind in self._kinds:
                raise ValueError(f"there are two integrations for {each.name}")
            self._kinds[each.group_kind] = each

    def __iter__(self) -> Iterator[JobKind]:
        return iter(self._kinds.values())

    def get(self, kind: GroupKind) -> JobKind | None:
        return self._kinds.get(kind)

    def kind(self, kind: GroupKind) -> JobKind:
        """Return the kind, which must be registered."""
        return self._kinds[kind]

    def restricted(self, kinds: Iterable[GroupKind]) -> Registry:
        """Return the registry with only these kinds."""
        wanted = set(kinds)
        return Registry(each for each in self if each.group_kind in wanted)


ALL = Registry()
JOB = BatchJob()
