# SPDX-License-Identifier: Apache-2.0
"""The list of metrics, and that the exposition format is valid."""

from __future__ import annotations

from kuota.engine.engine import Engine
from kuota.metrics.catalog import METRICS
from kuota.metrics.metric import MetricType
from kuota.metrics.metrics import Metrics
from metrics.shown import Scrape


def test_there_are_as_many_metrics_as_kueue_exports() -> None:
    assert 63 == len(METRICS)
    assert "kueue_replaced_workload_slices_total" not in METRICS


def test_histograms_and_only_they_have_buckets_that_grow() -> None:
    for each in METRICS.values():
        assert (each.kind is MetricType.HISTOGRAM) == bool(each.buckets)
        assert list(each.buckets) == sorted(set(each.buckets))


def test_waits_are_measured_from_a_second_to_hours() -> None:
    buckets = METRICS["kueue_quota_reserved_wait_time_seconds"].buckets
    assert (1, 2.5, 5, 10, 20) == buckets[:5]
    assert (14, 10240) == (len(buckets), buckets[-1])
    longer = METRICS["kueue_admission_wait_time_seconds"].buckets
    assert (16, 40960) == (len(longer), longer[-1])


def test_the_build_is_reported_without_a_role() -> None:
    seen = Scrape(Metrics(Engine()))
    ((labels, value),) = seen.all("build_info")
    assert 1 == value
    assert set(METRICS["kueue_build_info"].labels) == set(labels)
    assert not any("replica_role" in each.labels for each in seen.samples)
