# SPDX-License-Identifier: Apache-2.0
"""A noisy client does not delay the requests of another user by more than a second."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import pytest

from attack.members import join
from attack.raw import Target, answer, target
from up.machine import Machine

MAPS = "/api/v1/namespaces/vision/configmaps"
THREADS, OBJECTS = 32, 300


def noise(where: Target, running: threading.Event) -> None:
    """List everything as a table, again and again, on one connection."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with where.connect() as line:
        while running.is_set():
            line.sendall(where.head("GET", MAPS, Accept=accept))
            assert answer(line)[0] in (200, 429)


@pytest.mark.slow
def test_a_noisy_client_does_not_delay_other_users(
    machine: Machine, tmp_path: Path, long_run: bool
) -> None:
    join(machine, "ann", "vision", tmp_path)
    join(machine, "bob", "speech", tmp_path)
    ann = target(machine, tmp_path / "ann.kubeconfig")
    bob = target(machine, tmp_path / "bob.kubeconfig")
    with ann.connect() as line:
        for at in range(OBJECTS):
            body = json.dumps(
                {"metadata": {"name": f"m{at}"}, "data": {"a": "b" * 20_000}}
            ).encode()
            line.sendall(ann.head("POST", MAPS, Content_Length=len(body)) + body)
            assert 201 == answer(line)[0]
    running = threading.Event()
    running.set()
    crowd = [threading.Thread(target=noise, args=(ann, running)) for _ in range(THREADS)]
    for each in crowd:
        each.start()
    waits = []
    try:
        with bob.connect() as line:
            for _ in range(500 if long_run else 40):
                began = time.monotonic()
                line.sendall(bob.head("GET", "/api/v1/namespaces/speech/configmaps"))
                assert 200 == answer(line)[0]
                waits.append(time.monotonic() - began)
    finally:
        running.clear()
        for each in crowd:
            each.join()
    p99 = quantiles(waits, n=100)[98]
    figures = {"median": median(waits), "p99": p99, "longest": max(waits)}
    print(", ".join(f"{name} {1000 * each:.0f} ms" for name, each in figures.items()))
    assert max(waits) < 1
    status, _, metrics = bob.ask("GET", "/metrics")
    assert 200 == status
    for name in (b"kuota_http_connections{", b"kuota_watch_buffered_bytes", b"kuota_streams "):
        assert name in metrics
