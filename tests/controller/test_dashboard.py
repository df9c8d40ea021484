# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a cluster: reviewed tokens, and proxies with and without a certificate."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import trustme

from controller.dashboards import TRUSTING, ClusterDashboard, cluster_dashboard
from dashboard.events import put_queues, put_workload
from dashboard.pods import log, put_pod
from dashboard.recorded import write_history
from dashboard.served import Served, serving
from kuota.api.base import Key
from kuota.controller.dashboard import ClusterAccess
from kuota.controller.flags import DashboardSettings
from kuota.kube.access import AccessRequest, UserInfo
from kuota.kube.config import Connection, KubeconfigUser, Secret
from kuota.kube.resources import NAMESPACES

CARL = {"X-Remote-User": "carl", "X-Remote-Group": "vision"}
ANN = {"X-Remote-User": "ann", "X-Remote-Group": "vision"}


def telling(
    story: Callable[[ClusterDashboard, Served], Awaitable[None]],
    wanted: DashboardSettings | None = None,
    *,
    history: str = "",
) -> None:
    """Run a story with a dashboard in front of the embedded server."""

    async def work(served: Served) -> None:
        connection = Connection(
            server=served.base, user=KubeconfigUser(token=Secret("admin-token"))
        )
        async with cluster_dashboard(connection, wanted) as dashboard:
            await story(dashboard, served)

    serving(work, logs=log, history=history)


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


@pytest.mark.parametrize("proxied", [False, True])
def test_the_history_is_read_through_the_api_server(proxied: bool, tmp_path: Path) -> None:
    authority, file = trustme.CA(), str(tmp_path / "history.db")
    write_history(file)
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode())
    tls = presenting(authority, "proxy") if proxied else TRUSTING
    token, headers = ("", ANN) if proxied else ("ann-token", {})

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        async with dashboard.browser(token, tls) as browser:
            for report in ("history", "usage?by=user", "waste", "teams"):
                async with browser.get(dashboard.url(f"api/{report}"), headers=headers) as found:
                    assert 200 == found.status, await found.text()
                    text = await found.text()
                assert "vision" in text or "ann" in text, report
                assert not any(word in text for word in ("speech", "bob")), report
            url = dashboard.url("api/history?namespace=speech")
            async with browser.get(url, headers=headers) as found:
                assert 403 == found.status

    telling(story, wanted, history=file)


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


def test_a_proxied_user_reads_logs_after_a_review_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kuota.dashboard.logs.CHECK_S", 0.05)
    monkeypatch.setattr("kuota.controller.dashboard.REVIEW_S", 0.05)
    authority = trustme.CA()
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode())

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_pod(served, "vision", "train-0")
        await put_pod(served, "speech", "secret")
        async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
            url = dashboard.url("api/logs?namespace=vision&pod=train-0")
            async with browser.get(url, headers=ANN) as response:
                assert (200, True) == (response.status, "train-0" in await response.text())
            for pod, status in (("speech&pod=secret", 403), ("speech&pod=absent", 403)):
                other = dashboard.url(f"api/logs?namespace={pod}")
                async with browser.get(other, headers=ANN) as response:
                    assert (status, True) == (response.status, "may not" in await response.text())
            async with browser.get(f"{url}x", headers=ANN) as response:
                assert 404 == response.status
            async with browser.get(f"{url}&follow=true", headers=ANN) as response:
                assert b"train-0" in await response.content.readline()
                patch = {"metadata": {"labels": {"kuota.dev/team": "speech"}}}
                await served.client.patch(NAMESPACES, Key("", "vision"), patch)
                await response.content.read()
            async with browser.get(url, headers=ANN) as response:
                assert 403 == response.status

    telling(story, wanted)


def test_the_log_of_a_token_is_never_read_with_the_power_of_the_dashboard() -> None:
    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_pod(served, "speech", "secret")
        async with dashboard.browser("ann-token") as browser:
            url = dashboard.url("api/logs?namespace=speech&pod=secret")
            async with browser.get(url, headers={"X-Remote-User": "bob"}) as response:
                assert (403, False) == (response.status, "script" in await response.text())

    telling(story)


def test_a_proxied_user_gets_explanations_after_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    allows = ClusterAccess.allows

    async def stricter(access: ClusterAccess, user: UserInfo, wanted: AccessRequest) -> bool:
        """Explanations are not for carl."""
        denied = user.name == "carl" and wanted.subresource == "explanation"
        return not denied and await allows(access, user, wanted)

    monkeypatch.setattr(ClusterAccess, "allows", stricter)
    authority = trustme.CA()
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode())

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        await put_workload(served, "vision", "mine")
        # This server has no explanations. That it was asked for one shows that ann may read it.
        for headers, note in ((ANN, "does not serve"), (CARL, "you may not get")):
            async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
                query = "view=workload&namespace=vision&name=mine"
                assert note in await dashboard.first_event(browser, query, **headers)

    telling(story, wanted)


@pytest.mark.slow
def test_what_a_proxy_vouched_for_once_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuota.dashboard.logs.CHECK_S", 0.05)
    monkeypatch.setattr("kuota.dashboard.access.PROXIED_S", 0.3)
    authority = trustme.CA()
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode())
    followed = "api/logs?namespace=vision&pod=train-0&follow=true"

    async def story(dashboard: ClusterDashboard, served: Served) -> None:
        await put_queues(served)
        await put_pod(served, "vision", "train-0")
        async with dashboard.browser(tls=presenting(authority, "proxy")) as browser:
            async with browser.get(dashboard.url(followed), headers=ANN) as response:
                assert "Open the log again" in await response.text()
            url = dashboard.url("api/stream?view=workloads")
            headers = {**ANN, "Accept": "text/event-stream"}
            async with browser.get(url, headers=headers) as response:
                text = await response.text()
                assert (True, False) == ("event: snapshot" in text, "event: error" in text)

    telling(story, wanted)
