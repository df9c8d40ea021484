# SPDX-License-Identifier: Apache-2.0
"""Malformed requests get a 4xx with a Status. They cost the server no memory and others no time.

`pytest tests/attack/test_malformed.py --long` sends as many as docs/reliability.md reports.
"""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections import Counter
from pathlib import Path

from attack.fuzz import attempts
from attack.fuzz_objects import OBJECTS, Attempt
from attack.members import join
from attack.raw import Target, answer, memory_mib, target
from up.machine import Machine

SHORT, LONG = 1500, 100_000
WORKERS = 4


class Attacker(threading.Thread):
    """Sends malformed requests of one seed, on one connection for as long as that stays open."""

    def __init__(self, where: Target, seed: int, count: int) -> None:
        super().__init__()
        self.seen: Counter[int] = Counter()
        self.faults: list[str] = []
        self._where = where
        self._attempts = attempts(seed, count)
        self._line: socket.socket | None = None

    def run(self) -> None:
        for each in self._attempts:
            try:
                self._send(each)
            except OSError:
                self.seen[0] += 1
                self._close()
        self._close()

    def _send(self, attempt: Attempt) -> None:
        if self._line is None:
            self._line = self._where.connect()
        # What is not HTTP may need no answer; a request without an end gets none in time.
        self._line.settimeout(0.5 if attempt.raw else 30)
        self._line.sendall(attempt.raw or self._encoded(attempt))
        status, headers, body = answer(self._line, bodyless=attempt.method == "HEAD")
        self.seen[status] += 1
        if status >= 500 and status != 504:
            self.faults.append(f"{status} for {attempt!r:.600}: {body[:200]!r}")
        elif status >= 400 and attempt.method != "HEAD" and not is_status(body, status):
            self.faults.append(f"no Status for {attempt!r:.600}: {body[:200]!r}")
        if headers.get("connection") == "close" or attempt.raw:
            self._close()

    def _encoded(self, attempt: Attempt) -> bytes:
        lines = [f"{attempt.method} {attempt.path} HTTP/1.1", "Host: kuota"]
        lines.append(f"Authorization: Bearer {self._where.token}")
        lines += [f"{name}: {value}" for name, value in attempt.headers.items()]
        lines.append(f"Content-Length: {len(attempt.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + attempt.body

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def is_status(body: bytes, code: int) -> bool:
    try:
        found = json.loads(body)
    except ValueError:
        return False
    return isinstance(found, dict) and (found.get("kind"), found.get("code")) == ("Status", code)


def latencies(where: Target, running: threading.Event) -> list[float]:
    """The seconds that an unrelated client waits for the answers to its requests."""
    found = []
    with where.connect() as line:
        while running.is_set():
            began = time.monotonic()
            line.sendall(where.head("GET", "/api/v1/namespaces/speech/configmaps"))
            assert 200 == answer(line)[0]
            found.append(time.monotonic() - began)
            time.sleep(0.02)
    return found


def seeded(machine: Machine) -> None:
    """Create the objects that updates and patches refer to."""
    admin = target(machine)
    for path, make in OBJECTS:
        obj = make()
        obj["metadata"]["name"] = "seed"
        status, _, body = admin.ask("POST", path, json.dumps(obj).encode())
        assert status == 201, body


def test_malformed_requests_get_a_status_and_do_not_disturb_other_users(
    machine: Machine, tmp_path: Path, long_run: bool
) -> None:
    join(machine, "ann", "vision", tmp_path)
    join(machine, "bob", "speech", tmp_path)
    seeded(machine)
    bob = target(machine, tmp_path / "bob.kubeconfig")
    whole = LONG if long_run else SHORT
    attackers = [
        Attacker(target(machine, tmp_path / "ann.kubeconfig"), seed, whole // WORKERS)
        for seed in range(WORKERS - 1)
    ]
    attackers.append(Attacker(target(machine), WORKERS, whole // WORKERS))
    running, waits, memory = threading.Event(), [], []
    running.set()
    client = threading.Thread(target=lambda: waits.extend(latencies(bob, running)))
    client.start()
    for each in attackers:
        each.start()
    while any(each.is_alive() for each in attackers):
        memory.append(memory_mib(machine.pid()))
        attackers[0].join(0.5)
        time.sleep(0.2)
    running.clear()
    client.join()
    seen = sum((each.seen for each in attackers), Counter[int]())
    p99_ms = 1000 * statistics.quantiles(waits, n=100)[98]
    report = {
        "requests": seen.total(),
        "statuses": dict(sorted(seen.items())),
        "p50 ms": round(1000 * statistics.median(waits), 1),
        "p99 ms": round(p99_ms, 1),
        "client requests": len(waits),
        "memory MiB at start, half and end": [
            round(memory[at]) for at in (len(memory) // 10, len(memory) // 2, -1)
        ],
    }
    print(json.dumps(report, indent=1))
    faults = [fault for each in attackers for fault in each.faults]
    assert not faults, "\n".join(faults[:20])
    log = (machine.state / "kuota.log").read_text()
    assert "Traceback" not in log, log[-3000:]
    assert memory[-1] - memory[len(memory) // 10] < 64, memory
    if long_run:
        assert p99_ms < 250
