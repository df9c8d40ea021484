# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a cluster: reviewed tokens, and proxies with and without a certificate."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
import trustme

from controller.dashboards import TRUSTING, ClusterDashboard, cluster_dashboard
from dashboard.events import put_queues, put_workload
from dashboard.served import Served, serving
from kuota.controller.flags import DashboardSettings
from kuota.kube.config import Connection, Secret, User

ANN = {"X-Remote-User": "ann", "X-Remote-Group": "vision"}


def telling(
    story: Callable[[ClusterDashboard, Served], Awaitable[None]],
    wanted: DashboardSettings | None = None,
) -> None:
    """Run a story with a dashboard in front of the embedded server."""

    async def work(served: Served) -> None:
        own = User(token=Secret("admin-token"))
        connection = Connection(server=served.base, user=own)
        async with cluster_dashboard(connection, wanted) as dashboard:
            await story(dashboard, served)

    serving(work)


def presenting(authority: trustme.CA, name: str) -> ssl.SSLContext:
    """A client that presents a certificate of the authority with this common name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    authority.issue_cert(f"{name}.example", common_name=name).configure_cert(context)
    return context


def test_a_token_is_reviewed_by_the_api_server() -> None:
    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        async with dashboard.browser() as browser:
            url = dashboard.url("api/sign-in")
            async with browser.post(url, json={"token": "wrong"}) as response:
                assert 401 == response.status
            assert await dashboard.session(browser) is None
            async with browser.get(dashboard.base, allow_redirects=False) as response:
                assert "/dashboard/" == response.headers["Location"]
        await put_queues(served)
        async with dashboard.browser("ann-token") as browser:
            found = await dashboard.session(browser)
            assert ("ann", ["vision"], "cluster", False) == (
                found["user"],
                found["namespaces"],
                found["server"],
                found["actions"],
            )

    telling(story)


def test_a_member_sees_the_workloads_of_the_team() -> None:
    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "mine")
        await put_workload(served, "speech", "secret")
        async with dashboard.browser("ann-token") as browser:
            for view in ("workloads", "workload&namespace=vision&name=mine"):
                text = await dashboard.first_event(browser, f"view={view}")
                assert "event: snapshot" in text
                assert "mine" in text
                assert "secret" not in text
        async with dashboard.browser("admin-token") as browser:
            assert "secret" in await dashboard.first_event(browser, "view=workloads")

    telling(story)


def test_headers_of_callers_without_a_trusted_certificate_are_ignored() -> None:
    authority, other = trustme.CA(), trustme.CA()
    wanted = DashboardSettings(
        proxy_authority=authority.cert_pem.bytes().decode(), proxy_names=("proxy",)
    )

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
            found = await dashboard.session(browser, **ANN)
            assert ("ann", ["vision"]) == (found["user"], found["namespaces"])
            assert await dashboard.session(browser) is None
        for tls in (TRUSTING, presenting(authority, "somebody")):
            async with dashboard.browser(tls=tls) as browser:
                assert await dashboard.session(browser, **ANN) is None
        async with dashboard.browser(tls=presenting(other, "proxy")) as browser:
            with pytest.raises(aiohttp.ClientError):
                assert await dashboard.session(browser, **ANN) is not None

    telling(story, wanted)


def test_without_an_authority_no_proxy_is_trusted() -> None:
    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        authority = trustme.CA()
        async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
            assert await dashboard.session(browser, **ANN) is None

    telling(story)


def test_a_proxied_user_needs_the_value_of_the_page_for_changes() -> None:
    authority = trustme.CA()
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode(), actions=True)
    stop = {"action": "stopQueue", "kind": "ClusterQueue", "name": "shared"}

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
            url = dashboard.url("api/actions")
            async with browser.post(url, json=stop, headers=ANN) as response:
                assert (403, True) == (response.status, "CSRF" in await response.text())
            csrf = (await dashboard.session(browser, **ANN))["csrf"]
            headers = {**ANN, "X-Kuota-CSRF": csrf}
            async with browser.post(url, json=stop, headers=headers) as response:
                assert (403, True) == (response.status, "may not" in await response.text())
            admin = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
            csrf = (await dashboard.session(browser, **admin))["csrf"]
            headers = {**admin, "X-Kuota-CSRF": csrf}
            async with browser.post(url, json=stop, headers=headers) as response:
                assert 200 == response.status, await response.text()

    telling(story, wanted)
