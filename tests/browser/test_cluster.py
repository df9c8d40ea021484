# SPDX-License-Identifier: Apache-2.0
"""The pages in front of a real API server, where its binaries exist (`make kube`)."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from cluster.kube_install import install_crds
from cluster.kube_server import ADMIN_TOKEN, KubeServer, programs
from cluster.test_kube_dashboard import MINE, OTHER, populate
from controller.dashboards import cluster_dashboard
from hang import HANG_S

from .watched import visiting

LONG_MS = 20_000


def _built() -> bool:
    """Whether `scripts/kube` finds a server, instead of building one for minutes."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kuota" / "kube"
    named = os.environ.get("KUBEBUILDER_ASSETS") or shutil.which("kube-apiserver")
    return bool(named) or any(caches.glob("*/kube-apiserver"))


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    if not _built():
        pytest.skip("there is no real API server to test with; `make kube` builds one")
    server = KubeServer(tmp_path_factory.mktemp("kube"), programs())
    try:
        server.start()
        yield server
    finally:
        server.close()


async def _serve(kube: KubeServer, base: Future[str], done: asyncio.Event) -> None:
    await install_crds(kube)
    async with kube.client() as admin:
        await populate(admin)
    async with cluster_dashboard(kube.connection()) as dashboard:
        base.set_result(dashboard.url(""))
        await done.wait()


@contextmanager
def _served(kube: KubeServer) -> Iterator[str]:
    """The address of a dashboard in a thread of its own."""
    base: Future[str] = Future()
    loop, done = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        try:
            loop.run_until_complete(_serve(kube, base, done))
        except BaseException as error:
            if base.done():
                raise
            base.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield base.result(HANG_S)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(HANG_S)
        loop.close()


def test_pages_show_the_objects_of_a_cluster(browser: Browser, kube: KubeServer) -> None:
    with _served(kube) as base, visiting(browser, base, ignore_https_errors=True) as visitor:
        visitor.page.set_default_timeout(LONG_MS)
        visitor.open("", "Sign in to Kuota")
        visitor.page.get_by_label("token").fill(ADMIN_TOKEN)
        visitor.press("Enter")
        visitor.sees_heading("Quota")
        visitor.page.get_by_role("link", name="dashboard", exact=True).click()
        visitor.sees_heading("dashboard")
        visitor.sees_live()
        visitor.open("workloads", "Jobs")
        for namespace in (MINE, OTHER):
            expect(visitor.page.get_by_role("link", name=f"work-of-{namespace}")).to_be_visible()
        visitor.page.get_by_role("link", name=f"work-of-{MINE}").click()
        visitor.sees_heading(f"work-of-{MINE}")
        expect(visitor.page.locator(".timeline")).to_contain_text("submitted")
        for path in ("nodes", "topology"):
            visitor.open(path)
            visitor.sees_live()
        visitor.page.get_by_role("button", name="Sign out").click()
        visitor.sees_heading("Sign in to Kuota")
        assert ADMIN_TOKEN not in visitor.page.url
