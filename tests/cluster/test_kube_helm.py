# SPDX-License-Identifier: Apache-2.0
"""Helm installs, upgrades, uninstalls and installs again on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.kube_server import KubeServer, programs
from install.helm import CHART, helm
from kuota.api.base import Json, Key
from kuota.install.objects import DEPLOYMENTS, resource_of
from kuota.install.settings import CONTROLLER, HISTORY_ACCOUNT
from kuota.kube.errors import NotFound
from kuota.kube.resources import CRDS
from kuota.webhook.manifests import VALIDATING_NAME

_RELEASE, _NAMESPACE = "kueue", "kuota-by-helm"
_CLAIMS = resource_of({"kind": "PersistentVolumeClaim"})
_HOOKS = resource_of({"kind": "ValidatingWebhookConfiguration"})
_VALIDATING = Key("", VALIDATING_NAME)
_FEATURES = "history.enabled=true,dashboard.enabled=true,dashboard.actions=true"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeServer]:
    """A server of its own: the webhooks of the chart would fail all writes of other tests."""
    made = KubeServer(tmp_path, programs())
    try:
        made.start()
        yield made
    finally:
        made.close()


def _helm(server: KubeServer, *words: str) -> str:
    at = ("--kubeconfig", str(server.kubeconfig), "--namespace", _NAMESPACE)
    done = helm(*words, *at)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def _install(server: KubeServer, verb: str, *more: str) -> None:
    _helm(server, verb, _RELEASE, str(CHART), "--create-namespace", "--set", _FEATURES, *more)


def _claim(deployment: Json) -> str:
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (claim,) = (e["persistentVolumeClaim"] for e in volumes if "persistentVolumeClaim" in e)
    return str(claim["claimName"])


def test_a_release_is_installed_upgraded_and_uninstalled(server: KubeServer) -> None:
    history = Key(_NAMESPACE, HISTORY_ACCOUNT)

    async def uses(claim: str) -> None:
        async with server.client() as admin:
            assert claim == _claim(await admin.get(DEPLOYMENTS, history))
            # The claim of the chart contains records, so it stays although it is not used.
            await admin.get(_CLAIMS, history)
            await admin.get(_HOOKS, _VALIDATING)

    async def kept() -> None:
        async with server.client() as admin:
            for resource, key in (
                (DEPLOYMENTS, history),
                (DEPLOYMENTS, Key(_NAMESPACE, CONTROLLER)),
                (_HOOKS, _VALIDATING),
            ):
                with pytest.raises(NotFound):
                    await admin.get(resource, key)
            await admin.get(_CLAIMS, history)
            await admin.get(CRDS, Key("", "workloads.kueue.x-k8s.io"))

    _install(server, "install")
    assert "deployed" in _helm(server, "status", _RELEASE)
    asyncio.run(uses(HISTORY_ACCOUNT))
    _install(server, "upgrade", "--set", "history.persistence.existingClaim=mine")
    asyncio.run(uses("mine"))
    _helm(server, "uninstall", _RELEASE)
    asyncio.run(kept())
    _install(server, "install")
    asyncio.run(uses(HISTORY_ACCOUNT))
