# SPDX-License-Identifier: Apache-2.0
"""Signing in and out: one-time codes, cookies, forged requests, limits."""

from __future__ import annotations

from dashboard.served import CODES, Served, bearer, serving
from kuota.dashboard import sessions as limits
from kuota.dashboard.access import BearerToken, UnixPeer
from kuota.dashboard.sessions import CODE_S, FAILURES, FAILURES_S, SESSION_S, FailureLimit, Sessions


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_code_works_once() -> None:
    sessions = Sessions(FakeClock())
    code = sessions.issue_code("ann", UnixPeer(7))
    assert ("ann", UnixPeer(7)) == sessions.redeem(code)
    assert sessions.redeem(code) is None
    assert sessions.redeem("") is None
    assert sessions.redeem("another") is None


def test_a_code_expires() -> None:
    clock = FakeClock()
    sessions = Sessions(clock)
    code = sessions.issue_code("ann", UnixPeer(7))
    clock.now += CODE_S
    assert sessions.redeem(code) is None


def test_a_session_expires_and_can_be_ended() -> None:
    clock = FakeClock()
    sessions = Sessions(clock)
    first, second = sessions.begin("ann", UnixPeer(7)), sessions.begin("ann", UnixPeer(7))
    found = sessions.find(first)
    assert found is not None
    assert sessions.find(second) is not None
    sessions.end(first)
    assert sessions.find(first) is None
    assert not sessions.lasts(found)
    clock.now += SESSION_S
    assert sessions.find(second) is None


def test_the_sessions_of_one_user_do_not_evict_those_of_others() -> None:
    sessions = Sessions(FakeClock())
    other = sessions.begin("bob", UnixPeer(8))
    first = sessions.begin("ann", UnixPeer(7))
    for _ in range(limits.MOST_PER_OWNER):
        sessions.begin("ann", UnixPeer(7))
    assert sessions.find(first) is None
    assert sessions.find(other) is not None
    assert 1 + limits.MOST_PER_OWNER == len(sessions)


def test_service_accounts_have_no_codes_and_sessions_of_their_own() -> None:
    sessions = Sessions(FakeClock())
    code = sessions.issue_code("ann", UnixPeer(7))
    first = sessions.begin("ann", UnixPeer(7))
    for each in range(limits.MOST_PER_OWNER):
        name = f"system:serviceaccount:vision:robot-{each}"
        sessions.issue_code(name, BearerToken(name), "ann")
        sessions.begin(name, BearerToken(name), "ann")
    assert limits.MOST_PER_OWNER == len(sessions)
    assert sessions.find(first) is None
    assert sessions.redeem(code) is None


def test_a_representation_of_a_credential_does_not_contain_the_token() -> None:
    assert "secret" not in repr(BearerToken("secret"))


def test_failed_attempts_are_limited_for_a_while() -> None:
    clock = FakeClock()
    failures = FailureLimit(clock)
    for _ in range(FAILURES):
        assert not failures.exceeded("here")
        failures.failed("here")
    assert failures.exceeded("here")
    assert not failures.exceeded("elsewhere")
    clock.now += FAILURES_S
    assert not failures.exceeded("here")


def test_a_browser_signs_in_with_a_code_and_signs_out() -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser:
            async with browser.get(served.url("api/session")) as response:
                assert (401, "Unauthorized") == (response.status, (await response.json())["reason"])
            code = await served.code("ann-token")
            async with browser.post(served.url("api/sign-in"), json={"code": code}) as response:
                assert 204 == response.status
                cookie = response.headers["Set-Cookie"]
            for flag in ("HttpOnly", "SameSite=Strict", "Path=/dashboard", "kuota-session="):
                assert flag in cookie
            found = await served.json(browser, "api/session")
            assert ("ann", ["vision"], "member") == (
                found["user"],
                found["namespaces"],
                found["role"],
            )
            headers = {"X-Kuota-CSRF": found["csrf"]}
            async with browser.post(
                served.url("api/sign-out"), json={}, headers=headers
            ) as response:
                assert 204 == response.status
            async with browser.get(served.url("api/session")) as response:
                assert 401 == response.status
        async with (
            served.browser() as browser,
            browser.post(served.url("api/sign-in"), json={"code": code}) as response,
        ):
            assert 401 == response.status

    serving(work)


def test_an_admin_reads_all_namespaces() -> None:
    async def work(served: Served) -> None:
        async with served.browser("admin-token") as browser:
            found = await served.json(browser, "api/session")
        assert (None, "admin", "machine") == (found["namespaces"], found["role"], found["server"])

    serving(work)


def test_a_token_signs_in_too_and_is_valid_as_a_header() -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser:
            body = {"token": "bob-token"}
            async with browser.post(served.url("api/sign-in"), json=body) as response:
                assert 204 == response.status
            assert "bob" == (await served.json(browser, "api/session"))["user"]
        async with (
            served.browser() as program,
            program.get(served.url("api/session"), headers=bearer("ann-token")) as response,
        ):
            assert "ann" == (await response.json())["user"]

    serving(work)


CHANGES: tuple[tuple[dict[str, str], int], ...] = (
    ({}, 403),
    ({"X-Kuota-CSRF": "guess"}, 403),
    ({"X-Kuota-CSRF": "own", "Origin": "https://evil.example"}, 403),
    ({"X-Kuota-CSRF": "own", "Origin": "null"}, 403),
    ({"X-Kuota-CSRF": "own", "Origin": "http://127.0.0.1:1"}, 403),
    ({"X-Kuota-CSRF": "own", "Sec-Fetch-Site": "cross-site"}, 403),
    ({"X-Kuota-CSRF": "own", "Sec-Fetch-Site": "same-site"}, 403),
    ({"X-Kuota-CSRF": "own", "Content-Type": "text/plain"}, 415),
    ({"X-Kuota-CSRF": "own", "Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"X-Kuota-CSRF": "own", "Sec-Fetch-Site": "same-origin"}, 204),
)


def test_a_change_needs_the_value_of_the_session() -> None:
    async def work(served: Served) -> None:
        url = served.url("api/sign-out")
        for headers, status in CHANGES:
            async with served.browser("ann-token") as browser:
                csrf = (await served.json(browser, "api/session"))["csrf"]
                sent = {name: csrf if value == "own" else value for name, value in headers.items()}
                sent.setdefault("Content-Type", "application/json")
                async with browser.post(url, data=b"{}", headers=sent) as response:
                    assert status == response.status, headers

    serving(work)


def test_another_site_can_neither_sign_a_browser_in_nor_read() -> None:
    async def work(served: Served) -> None:
        async with served.browser("ann-token") as browser:
            evil = {"Origin": "https://evil.example"}
            body = {"code": await served.code("bob-token")}
            async with browser.post(served.url("api/sign-in"), json=body, headers=evil) as response:
                assert 403 == response.status
            for header in (evil, {"Sec-Fetch-Site": "same-site"}):
                async with browser.get(served.url("api/session"), headers=header) as response:
                    assert 403 == response.status
            assert "ann" == (await served.json(browser, "api/session"))["user"]

    serving(work)


def test_signing_in_replaces_the_session_of_the_browser() -> None:
    async def work(served: Served) -> None:
        async with served.browser("ann-token") as browser:
            before = {each.key: each.value for each in browser.cookie_jar}
            body = {"code": await served.code("ann-token")}
            async with browser.post(served.url("api/sign-in"), json=body) as response:
                assert 204 == response.status
            after = {each.key: each.value for each in browser.cookie_jar}
            assert before["kuota-session"] != after["kuota-session"]
        async with (
            served.browser() as thief,
            thief.get(
                served.url("api/session"),
                headers={"Cookie": f"kuota-session={before['kuota-session']}"},
            ) as response,
        ):
            assert 401 == response.status

    serving(work)


def test_a_session_id_of_the_client_is_not_used() -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser:
            body = {"code": await served.code("ann-token")}
            fixed = {"Cookie": "kuota-session=chosen-by-an-attacker"}
            async with browser.post(
                served.url("api/sign-in"), json=body, headers=fixed
            ) as response:
                assert 204 == response.status
                assert "chosen" not in response.headers["Set-Cookie"]

    serving(work)


MALFORMED = (
    (b"", 400),
    (b"[]", 400),
    (b"{}", 400),
    (b'{"code": 7}', 400),
    (b'{"code": "a", "token": "b"}', 400),
    (b'{"code": "a", "more": "b"}', 400),
    (b"[" * 60_000, 400),
    (b"\xff\xfe", 400),
    (b'{"code": "%s"}' % (b"a" * 20_000), 400),
    (b'{"code": "a\\ud800"}', 400),
    (b'{"token": "wrong"}', 401),
    (b'{"code": "wrong"}', 401),
    (b" " * (65 << 10), 413),
)


def test_a_malformed_sign_in_is_rejected() -> None:
    async def work(served: Served) -> None:
        url, headers = served.url("api/sign-in"), {"Content-Type": "application/json"}
        for body, status in MALFORMED:
            async with (
                served.browser() as browser,
                browser.post(url, data=body, headers=headers) as response,
            ):
                assert status == response.status, (body[:40], await response.text())
                assert "Status" == (await response.json())["kind"]

    serving(work)


def test_wrong_tokens_do_not_lock_out_others_at_the_same_address() -> None:
    async def work(served: Served) -> None:
        statuses = []
        async with served.browser() as browser:
            url = served.url("api/sign-in")
            for _ in range(FAILURES + 1):
                async with browser.post(url, json={"token": "guess"}) as response:
                    statuses.append(response.status)
            async with browser.post(url, json={"code": "guess"}) as response:
                statuses.append(response.status)
            async with browser.post(url, json={"token": "ann-token"}) as response:
                statuses.append(response.status)
            async with browser.post(url, json={"code": await served.code("ann-token")}) as response:
                statuses.append(response.status)
        assert [401] * FAILURES + [429, 429, 204, 204] == statuses

    serving(work)


def test_codes_are_issued_to_users_with_credentials_only() -> None:
    async def work(served: Served) -> None:
        async with served.browser() as browser:
            url = served.base + CODES
            async with browser.post(url, json={}) as response:
                assert 401 == response.status
            async with browser.get(url, headers=bearer("ann-token")) as response:
                assert 405 == response.status
            as_ann = {**bearer("admin-token"), "Impersonate-User": "ann"}
            async with browser.post(url, json={}, headers=as_ann) as response:
                assert 400 == response.status

    serving(work)
