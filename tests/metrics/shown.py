# SPDX-License-Identifier: Apache-2.0
"""A scrape of the metrics."""

from __future__ import annotations

import json

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from control.stage import CONFIG, Stage
from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.control.observer import CacheReader, attach_observer
from kuota.metrics.config import MetricsConfig, metrics_config
from kuota.metrics.metrics import Metrics

ROLE = "replica_role"


class Scrape:
    """One scrape. Names of Kueue's metrics go without their prefix."""

    def __init__(self, metrics: Metrics) -> None:
        text = generate_latest(metrics.collected()).decode()
        self.samples = [s for f in text_string_to_metric_families(text) for s in f.samples]

    def __call__(self, name: str, /, **labels: str) -> float | None:
        """The value of the one series with these labels; None without such a series."""
        found = [
            each.value
            for each in self.samples
            if each.name == _full(name) and labels.items() <= each.labels.items()
        ]
        assert len(found) < 2, f"{name} {labels}: {found}"
        return found[0] if found else None

    def all(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Every series of a metric, by labels without the role."""
        return [
            ({k: v for k, v in each.labels.items() if k != ROLE}, each.value)
            for each in self.samples
            if each.name == _full(name)
        ]


def _full(name: str) -> str:
    return name if name.startswith("kuota_") else f"kueue_{name}"


def asked(config: Json | None = None, gates: dict[str, bool] | None = None) -> MetricsConfig:
    """What a configuration asks for."""
    cfg = load(json.dumps(CONFIG | config)) if config is not None else None
    return metrics_config(cfg, Gates.of(gates or {}, check=False))


def along(
    stage: Stage, config: Json | None = None, gates: dict[str, bool] | None = None
) -> Metrics:
    """Metrics of the system on a stage, from now on."""
    system = stage.system
    objects = CacheReader(system.cache)
    metrics = Metrics(system.engine, asked(config, gates), objects, system.clock)
    attach_observer(metrics, system.driver, system.cache, system.clock)
    return metrics
