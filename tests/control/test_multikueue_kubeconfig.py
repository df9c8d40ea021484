# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of worker clusters: which are accepted, and that no message repeats their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kuota.control.checks.multikueue.kubeconfig import ClusterUnusable, accepted
from kuota.control.checks.multikueue.kubeconfig_file import MAX_BYTES, file_content

CANARY = "c4n4ry"


def kubeconfig(
    user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **root: Any
) -> str:
    server = {"server": "https://worker.example.com:6443"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "manager"}}],
        "clusters": [{"name": "there", "cluster": server | (cluster or {})}],
        "users": [{"name": "manager", "user": {"token": CANARY} if user is None else user}],
    }
    return yaml.safe_dump(content | root)


def refusal(content: str) -> ClusterUnusable:
    with pytest.raises(ClusterUnusable) as caught:
        accepted(content)
    return caught.value


def test_a_kubeconfig_with_a_token_is_accepted() -> None:
    found = accepted(kubeconfig())
    assert found.server == "https://worker.example.com:6443"
    assert found.user.token.reveal() == CANARY


@pytest.mark.parametrize(
    ("user", "cluster", "text"),
    [
        ({"tokenFile": f"/{CANARY}"}, {}, "names a token file"),
        ({"client-certificate": f"/{CANARY}"}, {}, "names a certificate file"),
        ({"client-key": f"/{CANARY}"}, {}, "names a key file"),
        ({"username": CANARY, "password": CANARY}, {}, "basic authentication"),
        ({"password": CANARY}, {}, "basic authentication"),
        ({"exec": {"command": CANARY}}, {}, "runs a program"),
        ({"auth-provider": {"name": CANARY}}, {}, "auth provider"),
        ({}, {"insecure-skip-tls-verify": True}, "skips TLS verification"),
        ({}, {"certificate-authority": f"/{CANARY}"}, "names a CA file"),
        ({}, {"server": ""}, "has no server"),
        ({}, {"server": f"http://{CANARY}.example.com"}, "no https:// URL"),
        ({}, {"server": f"https://{CANARY}:secret@worker.example.com"}, "no https:// URL"),
        ({}, {"server": f"https://{CANARY}_{CANARY}"}, "no https:// URL"),
        ({}, {"server": "https://"}, "no https:// URL"),
    ],
)
def test_an_insecure_kubeconfig_is_refused(
    user: dict[str, Any], cluster: dict[str, Any], text: str
) -> None:
    found = refusal(kubeconfig(user, cluster))
    assert found.reason == "InsecureKubeConfig"
    assert text in found.message
    assert CANARY not in found.message


def test_all_faults_are_reported_at_once_and_in_every_entry() -> None:
    second = {"name": CANARY, "user": {"exec": {"command": CANARY}, "tokenFile": CANARY}}
    users = [{"name": "manager", "user": {"token": CANARY}}, second]
    message = refusal(kubeconfig(None, {"insecure-skip-tls-verify": True}, users=users)).message
    assert "clusters[0] skips TLS" in message
    assert "users[1] names a token file" in message
    assert "users[1] runs a program" in message


@pytest.mark.parametrize(
    "content",
    [
        "",
        CANARY,
        f"- {CANARY}",
        f"{CANARY}: [",
        f"a: {CANARY}\na: {CANARY}",
        f"a: {CANARY}\n---\nb: {CANARY}",
        f"\0{CANARY}",
        f"{CANARY}: {'[' * 100_000}",
        kubeconfig(None, None, **{"current-context": ""}),
        kubeconfig(None, None, **{"current-context": CANARY}),
        kubeconfig(contexts=[{"name": "here", "context": {"cluster": CANARY}}]),
        kubeconfig(contexts=CANARY),
        kubeconfig(contexts=[{"name": "here", "context": CANARY}]),
        kubeconfig(clusters={CANARY: CANARY}),
        kubeconfig(users=[{"name": "other", "user": {"token": CANARY}}]),
        kubeconfig({"client-certificate-data": f"{CANARY}!"}),
        kubeconfig(None, {"certificate-authority-data": f"{CANARY}!"}),
    ],
)
def test_a_malformed_kubeconfig_is_refused_without_quoting_it(content: str) -> None:
    found = refusal(content)
    assert found.reason in ("BadKubeConfig", "InsecureKubeConfig")
    assert CANARY not in found.message


def test_plain_http_is_accepted_on_this_machine_only() -> None:
    assert accepted(kubeconfig(None, {"server": "http://127.0.0.1:8080"})).server


def test_a_file_must_lie_below_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "kubeconfigs", tmp_path / "kubeconfigs-other"
    folder.mkdir()
    outside.mkdir()
    (folder / "good").write_text("a")
    (outside / "bad").write_text(CANARY)
    (folder / "escape").symlink_to(outside / "bad")
    assert file_content(str(folder / "good"), confined=True, prefix=folder) == "a"
    assert file_content(str(outside / "bad"), confined=False, prefix=folder) == CANARY
    for location in (
        str(folder / "escape"),
        str(outside / "bad"),
        str(folder / ".." / "kubeconfigs-other" / "bad"),
        str(folder),
        str(folder / "missing"),
        "good",
        "",
        "/a\0b",
    ):
        with pytest.raises(ClusterUnusable) as caught:
            file_content(location, confined=True, prefix=folder)
        assert caught.value.reason == "BadKubeConfig"
    with pytest.raises(ClusterUnusable):
        file_content(str(folder / "good"), confined=True, prefix=tmp_path / "missing")


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"a" * (MAX_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("large", "binary"):
        with pytest.raises(ClusterUnusable):
            file_content(str(tmp_path / name), confined=True, prefix=tmp_path)
