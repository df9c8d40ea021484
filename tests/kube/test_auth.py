# SPDX-License-Identifier: Apache-2.0
"""Credentials stay current: tokens are reread, plugins rerun, certificates reloaded."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube.certificates import folder
from kube.virtual_time import NOON, VirtualClock
from kuota.kube.auth import FRESH_S, Credentials, question
from kuota.kube.config import Connection, ExecPlugin, KubeconfigUser, Pem, Secret
from kuota.kube.errors import ConfigError

CERTS = folder()
V1 = "client.authentication.k8s.io/v1"


def _credentials(clock: VirtualClock | None = None, **user: Any) -> Credentials:
    connection = Connection(
        server="https://127.0.0.1",
        authority=Pem(file=str(CERTS / "ca.crt")),
        user=KubeconfigUser(**user),
    )
    return Credentials(connection, clock or VirtualClock())


def _headers(credentials: Credentials) -> dict[str, str]:
    return dict(asyncio.run(credentials.headers()))


def test_a_token_is_sent_as_it_is() -> None:
    assert {"Authorization": "Bearer t"} == _headers(_credentials(token=Secret("t")))


def test_a_password_is_sent_in_the_basic_way() -> None:
    coded = base64.b64encode(b"me:word").decode()
    sent = _headers(_credentials(username="me", password=Secret("word")))
    assert {"Authorization": f"Basic {coded}"} == sent


def test_an_anonymous_client_sends_no_credentials() -> None:
    assert {} == _headers(_credentials())


def test_a_token_file_is_read_again_every_minute_and_wins(tmp_path: Path) -> None:
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("old\n")
    credentials = _credentials(clock, token=Secret("inline"), token_file=str(file))
    assert {"Authorization": "Bearer old"} == _headers(credentials)
    file.write_text("new\n")
    assert {"Authorization": "Bearer old"} == _headers(credentials)
    clock.pass_by(FRESH_S)
    assert {"Authorization": "Bearer new"} == _headers(credentials)
    file.unlink()
    clock.pass_by(FRESH_S)
    assert {"Authorization": "Bearer new"} == _headers(credentials)


def test_a_token_file_that_never_was_there_is_a_fault_without_another_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        _headers(_credentials(token_file=str(tmp_path / "absent")))
    both = _credentials(token_file=str(tmp_path / "absent"), token=Secret("inline"))
    assert {"Authorization": "Bearer inline"} == _headers(both)


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    credentials = _credentials(token_file=str(file))
    refused = list(_headers(credentials).items())
    file.write_text("new")
    assert credentials.doubt(refused)
    assert {"Authorization": "Bearer new"} == _headers(credentials)
    assert credentials.doubt(refused)


def test_a_refused_inline_token_has_no_successor() -> None:
    credentials = _credentials(token=Secret("t"))
    assert not credentials.doubt(list(_headers(credentials).items()))


def _plugin(tmp_path: Path, status: Any, **more: Any) -> ExecPlugin:
    """A plugin that counts how often it ran, and keeps what it was asked."""
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    (tmp_path / "answer").write_bytes(msgspec.json.encode(answer))
    code = (
        "import os, sys; d = sys.argv[1]; open(d + '/runs', 'a').write('.');"
        "open(d + '/asked', 'w').write(os.environ['KUBERNETES_EXEC_INFO'] + os.environ['A']);"
        "print(open(d + '/answer').read())"
    )
    options = {"api_version": V1, "args": ("-c", code, str(tmp_path)), "env": (("A", "b"),)} | more
    return ExecPlugin(command=sys.executable, **options)


def _runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


def test_a_plugin_is_asked_once_until_its_grant_runs_out(tmp_path: Path) -> None:
    clock = VirtualClock()
    until = (NOON + timedelta(hours=1)).isoformat()
    plugin = _plugin(tmp_path, {"token": "given", "expirationTimestamp": until})
    credentials = _credentials(clock, plugin=plugin)
    for _ in range(3):
        assert {"Authorization": "Bearer given"} == _headers(credentials)
    assert 1 == _runs(tmp_path)
    clock.pass_by(3590)
    _headers(credentials)
    assert 2 == _runs(tmp_path)
    asked = (tmp_path / "asked").read_text()
    assert asked.endswith("b")
    assert {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}} == (
        msgspec.json.decode(asked[:-1])
    )


def test_a_plugin_is_asked_again_when_the_server_refuses_its_token(tmp_path: Path) -> None:
    credentials = _credentials(plugin=_plugin(tmp_path, {"token": "given"}))
    refused = list(_headers(credentials).items())
    assert credentials.doubt(refused)
    _headers(credentials)
    assert 2 == _runs(tmp_path)


def test_many_requests_at_once_ask_a_plugin_once(tmp_path: Path) -> None:
    credentials = _credentials(plugin=_plugin(tmp_path, {"token": "given"}))

    async def main() -> None:
        await asyncio.gather(*(credentials.headers() for _ in range(5)))

    asyncio.run(main())
    assert 1 == _runs(tmp_path)


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    pair = {
        "clientCertificateData": (CERTS / "client.crt").read_text(),
        "clientKeyData": (CERTS / "client.key").read_text(),
    }
    credentials = _credentials(plugin=_plugin(tmp_path, pair))
    assert {} == _headers(credentials)
    assert credentials._shown


def test_a_plugin_may_receive_the_cluster() -> None:
    connection = Connection(
        server="https://s", authority=Pem(text=Secret("pem")), tls_server_name="n", proxy="http://p"
    )
    plugin = ExecPlugin(api_version=V1, command="x", wants_cluster=True)
    assert {
        "server": "https://s",
        "certificate-authority-data": base64.b64encode(b"pem").decode(),
        "tls-server-name": "n",
        "proxy-url": "http://p",
    } == question(plugin, connection, False)["spec"]["cluster"]


@pytest.mark.parametrize(
    ("complaint", "change"),
    [
        ("is not one of", {"api_version": "client.authentication.k8s.io/v1alpha1"}),
        ("answered in", {"api_version": "client.authentication.k8s.io/v1beta1"}),
        ("failed with exit 3", {"args": ("-c", "raise SystemExit(3)")}),
        ("printed no credential", {"args": ("-c", "print('hello')")}),
        ("returned neither", {}),
    ],
)
def test_a_plugin_that_does_not_do_its_work_is_named(
    tmp_path: Path, complaint: str, change: Any
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        _headers(_credentials(plugin=_plugin(tmp_path, {}, **change)))


def test_a_plugin_that_is_not_there_comes_with_its_hint() -> None:
    plugin = ExecPlugin(api_version=V1, command="/absent/login", install_hint="Install it.")
    with pytest.raises(ConfigError, match="Install it"):
        _headers(_credentials(plugin=plugin))


def _replace(path: Path, text: str) -> None:
    """As kubelets and certificate managers do: a new file under the old name."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def test_a_certificate_on_disk_is_loaded_again_when_both_halves_changed(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_text((CERTS / "client.crt").read_text())
    key.write_text((CERTS / "client.key").read_text())
    credentials = _credentials(certificate=Pem(file=str(cert)), key=Pem(file=str(key)))
    _headers(credentials)
    _headers(credentials)
    assert 0 == credentials.generation
    _replace(cert, (CERTS / "other.crt").read_text())
    _headers(credentials)
    assert 0 == credentials.generation
    _replace(key, (CERTS / "other.key").read_text())
    _headers(credentials)
    assert 1 == credentials.generation


def test_an_unusable_certificate_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="client certificate is unusable"):
        _headers(_credentials(certificate=Pem(text=Secret("x")), key=Pem(text=Secret("y"))))
    with pytest.raises(ConfigError, match="authority is unusable"):
        Credentials(Connection(server="https://s", authority=Pem(text=Secret("x"))), VirtualClock())
