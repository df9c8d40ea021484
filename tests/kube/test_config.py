# SPDX-License-Identifier: Apache-2.0
"""The server and user that a kubeconfig selects."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
import yaml

from kuota.api.base import Json
from kuota.kube.config import Connection, Pem, connection, from_kubeconfig, in_cluster
from kuota.kube.errors import ConfigError


def _config(**user: object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [
            {"name": "near", "cluster": {"server": "https://near:6443/"}},
            {
                "name": "far",
                "cluster": {
                    "server": "https://far",
                    "certificate-authority": "ca.crt",
                    "tls-server-name": "kubernetes",
                    "proxy-url": "http://proxy",
                    "insecure-skip-tls-verify": True,
                },
            },
        ],
        "contexts": [
            {"name": "one", "context": {"cluster": "near", "user": "me"}},
            {"name": "two", "context": {"cluster": "far", "user": "me", "namespace": "team"}},
        ],
        "users": [{"name": "me", "user": user}],
    }


def _written(folder: Path, content: Json, name: str = "config") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_current_context_is_meant_unless_another_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path, _config(token="t0p"))
    one = connection(str(path), environ={})
    assert ("https://near:6443", "default", "one") == (one.server, one.namespace, one.context)
    assert "t0p" == one.user.token.reveal()
    two = connection(str(path), "two", environ={})
    assert ("https://far", "team", True) == (two.server, two.namespace, two.insecure)
    assert ("kubernetes", "http://proxy") == (two.tls_server_name, two.proxy)
    assert Pem(file=str(tmp_path / "ca.crt")) == two.authority


def test_secrets_do_not_show(tmp_path: Path) -> None:
    coded = base64.b64encode(b"k3y").decode()
    path = _written(
        tmp_path, _config(token="t0p", password="w0rd", username="u", **{"client-key-data": coded})
    )
    found = from_kubeconfig([path])
    assert "k3y" == found.user.key.read()
    assert not any(secret in repr(found) for secret in ("t0p", "w0rd", "k3y"))


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    user = {"tokenFile": "token", "client-certificate": "/abs/tls.crt", "client-key": "tls.key"}
    plugin = {"apiVersion": "v", "command": "./login", "env": [{"name": "A", "value": "b"}]}
    found = from_kubeconfig([_written(tmp_path, _config(**user, exec=plugin))]).user
    assert str(tmp_path / "token") == found.token_file
    assert "/abs/tls.crt" == found.certificate.file
    assert str(tmp_path / "tls.key") == found.key.file
    assert found.plugin is not None
    assert str(tmp_path / "login") == found.plugin.command
    assert (("A", "b"),) == found.plugin.env


def test_of_several_files_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = _config(token="first")
    del first["clusters"], first["current-context"]
    second = _config(token="second")
    paths = [_written(tmp_path, first, "a"), _written(tmp_path, second, "b")]
    listed = os.pathsep.join([str(tmp_path / "absent"), *map(str, paths)])
    found = connection(environ={"KUBECONFIG": listed})
    assert ("https://near:6443", "first") == (found.server, found.user.token.reveal())


def test_the_home_folder_is_looked_at_last(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    _written(tmp_path / ".kube", _config())
    assert "https://near:6443" == connection(environ={"HOME": str(tmp_path)}).server


def test_a_pod_finds_its_cluster(tmp_path: Path) -> None:
    for name, text in {"namespace": "team\n", "token": "t", "ca.crt": "pem"}.items():
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = in_cluster(environ, tmp_path)
    assert ("https://[fd00::1]:6443", "team") == (found.server, found.namespace)
    assert str(tmp_path / "token") == found.user.token_file
    assert "pem" == found.authority.read()
    with pytest.raises(ConfigError, match="not inside"):
        in_cluster({}, tmp_path)


def test_somebody_else_may_be_acted_for(tmp_path: Path) -> None:
    user = {"as": "bob", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x"]}}
    found = from_kubeconfig([_written(tmp_path, _config(**user))])
    assert (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "x"),
    ) == found.user.impersonate


@pytest.mark.parametrize(
    ("complaint", "change"),
    [
        ("no context named 'absent'; it has: ", {"current-context": "absent"}),
        ("no current-context", {"current-context": ""}),
        ("no cluster named 'near'", {"clusters": []}),
        ("no user named 'me'", {"users": []}),
        ("no usable server", {"clusters": [{"name": "near", "cluster": {}}]}),
        ("auth-provider", {"users": [{"name": "me", "user": {"auth-provider": {"name": "gcp"}}}]}),
        ("needs a command", {"users": [{"name": "me", "user": {"exec": {"args": []}}}]}),
        (
            "client-key-data is not base64",
            {"users": [{"name": "me", "user": {"client-key-data": "%%%"}}]},
        ),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, complaint: str, change: Json) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_kubeconfig([_written(tmp_path, _config() | change)])


def test_a_file_that_is_no_yaml_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{")
    with pytest.raises(ConfigError, match="is not a kubeconfig"):
        connection(str(tmp_path / "config"))


def test_no_configuration_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path)):
        connection(environ={"HOME": str(tmp_path)})


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    config = _config()
    config["contexts"][0]["context"].pop("user")
    found = from_kubeconfig([_written(tmp_path, config)])
    assert Connection(server="https://near:6443", context="one") == found
