# SPDX-License-Identifier: Apache-2.0
"""Readings of dcgm-exporters: the format, servers that misbehave, and the join with pods."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from kuota.utilization.dcgm import (
    DeviceSample,
    UnreadableReadings,
    exporter_samples,
    prometheus_samples,
    query,
)
from kuota.utilization.exporters import SourceReader
from kuota.utilization.sources import DeviceSources
from utilization.exported import EXPORTED

TRAIN = DeviceSample("team", "train-0", "main", "GPU-11111111-aaaa", 97.0)
NOTEBOOK = DeviceSample("team", "notebook-0", "main", "GPU-22222222-bbbb", 0.0)
MIG = [
    DeviceSample("team", "mig-0", "main", "GPU-44444444-dddd:7", 25.0),
    DeviceSample("team", "mig-1", "main", "GPU-44444444-dddd:8", 0.0),
]


def _sorted(samples: list[DeviceSample]) -> list[DeviceSample]:
    return sorted(samples, key=lambda each: each.device)


def test_allocated_gpus_have_their_utilization_and_mig_instances_their_activity() -> None:
    assert [TRAIN, NOTEBOOK, *MIG] == _sorted(exporter_samples(EXPORTED))


@pytest.mark.parametrize(
    ("namespace", "pod"), [("", "p"), ("team", "a/b"), ("..", "p"), ("team", "%2e"), ("team", "")]
)
def test_labels_that_are_no_names_affect_no_other_device(namespace: str, pod: str) -> None:
    labels = f'UUID="GPU-9",namespace="{namespace}",pod="{pod}",container="main"'
    text = f"{EXPORTED.rstrip()}\nDCGM_FI_DEV_GPU_UTIL{{{labels}}} 1\n"
    assert exporter_samples(EXPORTED) == exporter_samples(text)


def test_prometheus_renames_the_labels_of_the_exporter() -> None:
    metric = {
        "__name__": "DCGM_FI_DEV_GPU_UTIL",
        "UUID": "GPU-1",
        "namespace": "gpu-operator",
        "pod": "dcgm-exporter-abc",
        "container": "exporter",
        "exported_namespace": "team",
        "exported_pod": "train-0",
        "exported_container": "main",
    }
    answer = {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": metric, "value": [1.5, "42"]}]},
    }
    assert [DeviceSample("team", "train-0", "main", "GPU-1", 42.0)] == prometheus_samples(answer)


@pytest.mark.parametrize(
    "answer",
    [{}, [], {"data": {"result": [{"metric": {}, "value": [0, "1"]}]}}, {"data": None}, "x"],
)
def test_other_answers_than_those_of_prometheus_are_unreadable(answer: object) -> None:
    with pytest.raises(UnreadableReadings):
        prometheus_samples(answer)  # type: ignore[arg-type]


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(text: str) -> None:
    for given_text in (text, EXPORTED + text, EXPORTED.replace('"main"', f'"{text}"')):
        try:
            exporter_samples(given_text)
        except UnreadableReadings:
            continue


def test_values_outside_of_the_range_are_left_out() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",pod="p",namespace="n"} '
    for value in ("NaN", "-1", "101", "+Inf", "9.2e18"):
        assert [] == exporter_samples(f"{text}{value}\n")


_SELECTOR = 'job="dcgm-exporter",namespace="gpu-operator"'

Answer = Callable[[web.Request], web.StreamResponse]


def _read(answer: Answer, times: int = 1, prometheus: bool = False) -> list[DeviceSample]:
    """Read a server several times, and return the last readings."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request)

    async def play() -> list[DeviceSample]:
        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        async with TestServer(app) as server:
            url = str(server.make_url("/metrics"))
            sources = DeviceSources(exporters=(url,))
            if prometheus:
                sources = DeviceSources((), str(server.make_url("")), _SELECTOR)
            reader = SourceReader(sources)
            for _ in range(times):
                found = await reader.read()
            return found

    return asyncio.run(play())


def test_an_exporter_is_read_over_http() -> None:
    def answer(request: web.Request) -> web.Response:
        assert "/metrics" == request.path
        return web.Response(text=EXPORTED)

    assert 4 == len(_read(answer))


def test_prometheus_is_asked_for_both_metrics_of_the_selected_exporters() -> None:
    wanted = (
        '{__name__=~"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_PROF_GR_ENGINE_ACTIVE",'
        'job="dcgm-exporter",namespace="gpu-operator"}'
    )
    assert wanted == query(_SELECTOR)

    def answer(request: web.Request) -> web.Response:
        assert ("/api/v1/query", wanted) == (request.path, request.query["query"])
        return web.Response(text=json.dumps({"data": {"result": []}}))

    assert [] == _read(answer, prometheus=True)


_PROMETHEUS = "http://prometheus:9090"


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "job",
        "job=dcgm-exporter",
        'job=""',
        'job=~".*"',
        'job!="x"',
        'job="a",',
        'job="a"} or {job="b"',
        'job="a" or job="b"',
        'job="a"b"',
        '__name__="DCGM_FI_DEV_GPU_UTIL"',
        'job="a",exported_namespace="team"',
        'exported_job="dcgm-exporter"',
        "job='a'",
    ],
)
def test_series_of_any_scraped_pod_are_not_believed(selector: str) -> None:
    assert DeviceSources((), _PROMETHEUS, selector).faults()


@pytest.mark.parametrize(
    "selector",
    [
        _SELECTOR,
        'job="a"',
        ' job = "a" , instance =~ "10[.].*" ',
        r'job="a\"b,c"',
        'job="a",pod!="b"',
    ],
)
def test_exporters_are_selected_by_labels_of_their_targets(selector: str) -> None:
    assert [] == DeviceSources((), _PROMETHEUS, selector).faults()
    assert DeviceSources(("http://dcgm:9400/metrics",), "", selector).faults()


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: web.Response(status=500),
        lambda request: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        lambda request: web.Response(text="{not metrics"),
        lambda request: web.Response(body=b"\xff\xfe"),
        lambda request: web.Response(body=b"a" * (17 << 20)),
    ],
)
def test_a_server_that_misbehaves_is_left_out_and_logged_once(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kuota.utilization"):
        assert [] == _read(answer, times=3)
    assert 1 == len(caplog.records)


def test_an_unreachable_exporter_does_not_hide_others() -> None:
    async def play() -> list[DeviceSample]:
        app = web.Application()

        async def handle(request: web.Request) -> web.Response:
            return web.Response(text=EXPORTED)

        app.router.add_get("/metrics", handle)
        async with TestServer(app) as server:
            gone = "http://127.0.0.1:1/metrics"
            named = "http://no-such-host.invalid:9400/metrics"
            urls = (gone, named, str(server.make_url("/metrics")))
            return await SourceReader(DeviceSources(exporters=urls)).read()

    assert 4 == len(asyncio.run(play()))


def test_faults_of_urls_are_reported_at_once() -> None:
    assert [] == DeviceSources(("http://dcgm:9400/metrics",), "https://prom", _SELECTOR).faults()
    assert 3 == len(DeviceSources(("dcgm:9400", "ftp://x"), "http://:99999", _SELECTOR).faults())
