# SPDX-License-Identifier: Apache-2.0
"""Reads the utilization of GPUs from the metrics of NVIDIA's dcgm-exporter. Pure.

The exporter adds the pod that holds a GPU as labels. Read through a Prometheus, they are named
`exported_pod` and so on, unless its configuration honors the labels of the exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from kuota.api.base import Json
from kuota.api.names import dns_label, dns_subdomain

UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
"""The utilization in percent. MIG instances do not have it."""
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""The share of the time in which the graphics engine was active, from 0 to 1."""


def query(selector: str) -> str:
    """Return the PromQL query of both metrics of the exporters that label matchers select."""
    return f'{{__name__=~"{UTILIZATION}|{ACTIVITY}",{selector}}}'


class UnreadableReadings(ValueError):
    """The response of an exporter or of Prometheus is not what it should be."""


class DeviceSample(msgspec.Struct, frozen=True):
    """The utilization of a GPU, or of a MIG instance, and the container that holds it."""

    namespace: str
    pod: str
    container: str
    device: str
    utilization_percent: float


class _PrometheusResult(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _PrometheusData(msgspec.Struct):
    result: list[_PrometheusResult]


class _PrometheusAnswer(msgspec.Struct):
    data: _PrometheusData


def exporter_samples(text: str) -> list[DeviceSample]:
    """Return the allocated devices in the text of an exporter. Raises UnreadableReadings."""
    try:
        found = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in (UTILIZATION, ACTIVITY)
        ]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnreadableReadings(f"not the text format of Prometheus: {error}") from None
    return _samples(found)


def prometheus_samples(answer: Json) -> list[DeviceSample]:
    """Return the allocated devices in Prometheus' answer to `query`. Raises UnreadableReadings."""
    try:
        results = msgspec.convert(answer, _PrometheusAnswer).data.result
        found = [(each.metric["__name__"], each.metric, float(each.value[1])) for each in results]
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        raise UnreadableReadings(f"not an answer of Prometheus: {error}") from None
    return _samples(found)


def _samples(found: Iterable[tuple[str, Mapping[str, str], float]]) -> list[DeviceSample]:
    """Return one sample per device, with its utilization, or else its activity."""
    samples: dict[str, DeviceSample] = {}
    for name, labels, value in sorted(found, key=lambda each: each[0] == UTILIZATION):
        instance = labels.get("GPU_I_ID", "")
        if instance and name == UTILIZATION:
            continue  # It is that of the whole GPU.
        device = ":".join(filter(None, (labels.get("UUID", ""), instance)))
        percent = value if name == UTILIZATION else value * 100
        namespace, pod = _label(labels, "namespace"), _label(labels, "pod")
        # A label that is no name must not affect other devices.
        named = not dns_label(namespace) and not dns_subdomain(pod)
        if device and named and 0 <= percent <= 100:
            container = _label(labels, "container")
            samples[device] = DeviceSample(namespace, pod, container, device, percent)
    return list(samples.values())


def _label(labels: Mapping[str, str], name: str) -> str:
    return labels.get(f"exported_{name}") or labels.get(name, "")
