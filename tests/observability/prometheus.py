# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus: its binaries, and a server that scrapes one target."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hang import HANG_S


def binary(name: str) -> str:
    """The path of `prometheus` or `promtool`. `.ci/run` always provides them."""
    folder = os.environ.get("KUOTA_PROMETHEUS")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        assert not folder, f"KUOTA_PROMETHEUS={folder} contains no {name}"
        pytest.skip(f"no {name} on the PATH; `scripts/prometheus` provides it")
    return found


class Prometheus:
    """A running server."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[Any]:
        """Return the result of an instant query. Fails on an error of the expression."""
        answer = self._get("query", query=expression)
        assert "success" == answer["status"], answer
        found: list[Any] = answer["data"]["result"]
        return found

    def rules(self) -> dict[str, str]:
        """The health of each alerting rule by name."""
        groups = self._get("rules")["data"]["groups"]
        return {each["name"]: each["health"] for group in groups for each in group["rules"]}

    def wait(self, expression: str) -> list[Any]:
        """Return the result once there is one."""
        until = time.monotonic() + HANG_S
        while time.monotonic() < until:
            found = self.query(expression)
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"no result: {expression}")

    def _get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None


@contextmanager
def scraping(
    folder: Path, target: str, token: str, authority: Path, rules: Path
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the target each second until it is left."""
    (folder / "token").write_text(token)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "kuota",
                "scheme": "https",
                "tls_config": {"ca_file": str(authority)},
                "authorization": {"credentials_file": str(folder / "token")},
                "static_configs": [{"targets": [target]}],
            }
        ],
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    port = _free_port()
    command = [
        binary("prometheus"),
        f"--config.file={folder / 'prometheus.json'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (
        (folder / "prometheus.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield _ready(f"http://127.0.0.1:{port}", process, folder / "prometheus.log")
        finally:
            process.terminate()


def _ready(url: str, process: subprocess.Popen[bytes], log: Path) -> Prometheus:
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=HANG_S):
                return Prometheus(url)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("Prometheus does not start")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
