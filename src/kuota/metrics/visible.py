# SPDX-License-Identifier: Apache-2.0
"""Restricts a scrape to the teams that the reader may see. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric as Family

TEAM_LABELS = ("team", "namespace")
"""Labels whose value is a namespace."""


def visible(families: Iterable[Family], may_see: Callable[[str], bool]) -> Iterator[Family]:
    """Yield the families without the samples of namespaces that the reader may not see.

    Samples without a namespace are about queues, which everyone may read. Families without samples
    are left out.
    """
    known: dict[str, bool] = {"": True}
    for family in families:
        shown = Family(family.name, family.documentation, family.type, family.unit)
        for sample in family.samples:
            for name in TEAM_LABELS:
                namespace = sample.labels.get(name, "")
                if namespace not in known:
                    known[namespace] = may_see(namespace)
                if not known[namespace]:
                    break
            else:
                shown.samples.append(sample)
        if shown.samples:
            yield shown
