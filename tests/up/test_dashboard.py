# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a running machine: the printed link signs in, and nothing stores its code."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest

from hang import HANG_S
from up.machine import KUOTA, Machine


@pytest.mark.slow
def test_the_link_of_the_command_signs_in_once(machine: Machine) -> None:
    link = _printed(machine, "dashboard", "--print").strip()
    address, code = link.split("#code=")
    assert urlsplit(address).path == "/dashboard/sign-in"
    page = _opened(address)
    assert 200 == page.status
    sign_in = address.replace("/sign-in", "/api/sign-in")
    answer = _opened(sign_in, json.dumps({"code": code}).encode())
    assert 204 == answer.status
    cookie = answer.headers["Set-Cookie"]
    for flag in ("HttpOnly", "Secure", "SameSite=Strict"):
        assert flag in cookie
    session = address.replace("/sign-in", "/api/session")
    found = json.load(_opened(session, cookie=cookie.partition(";")[0]))
    assert ("admin", None) == (found["user"], found["namespaces"])
    with pytest.raises(urllib.error.HTTPError, match="401"):
        _opened(sign_in, json.dumps({"code": code}).encode())
    assert code not in (machine.state / "kuota.log").read_text()
    secret = cookie.partition("=")[2].partition(";")[0].encode()
    for file in machine.state.rglob("*"):
        if file.is_file():
            assert secret not in file.read_bytes(), file
    status = json.loads(_printed(machine, "status", "-o", "json"))
    assert status["dashboard"] == address.replace("/sign-in", "/")


def _printed(machine: Machine, *arguments: str) -> str:
    done = subprocess.run(
        [KUOTA, *arguments],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return done.stdout


def _opened(url: str, body: bytes | None = None, cookie: str = "") -> Any:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Content-Type": "application/json", "Cookie": cookie}
    request = urllib.request.Request(url, body, headers)
    return urllib.request.urlopen(request, context=context, timeout=HANG_S)
