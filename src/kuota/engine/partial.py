# SPDX-License-Identifier: Apache-2.0
"""How many pods a workload that may shrink should start with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .model import Workload

T = TypeVar("T")


def partial(workload: Workload, try_counts: Callable[[list[int]], T | None]) -> T | None:
    """What the largest size that works gives; None when no size does or none may shrink.

    Sizes shrink all pod sets in proportion, from the counts of the spec to the minimum. A size that
    works is taken to mean that every smaller one does, so the search halves.
    """
    full = [pod_set.count for pod_set in workload.pod_sets]
    spare = [
        0 if pod_set.min_count is None else max(0, pod_set.count - pod_set.min_count)
        for pod_set in workload.pod_sets
    ]
    steps = sum(spare)
    if steps == 0:
        return None
    best: T | None = None
    low, high = 0, steps + 1
    while low < high:
        step = (low + high) // 2
        found = try_counts(counts_at(step, full, spare))
        if found is None:
            low = step + 1
        else:
            best, high = found, step
    return best


def counts_at(step: int, full: list[int], spare: list[int]) -> list[int]:
    """The counts after `step` of as many steps as there are spare pods, all shrunk alike."""
    steps = sum(spare)
    return [count - less * step // steps for count, less in zip(full, spare, strict=True)]
