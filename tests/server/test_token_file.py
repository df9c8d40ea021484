# SPDX-License-Identifier: Apache-2.0
"""The token file: changes take effect immediately, and it stays private and complete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kuota.server.requests import ADMINS
from kuota.server.tokens import OWNER, TokenError, TokenFile, Tokens, admin_token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "tokens.csv"
    admin_token(made)
    return made


def test_who_gets_a_token_is_known_at_once_and_who_loses_it_no_more(path: Path) -> None:
    server, admin = TokenFile(path), TokenFile(path)
    token = admin.give("ann", ["vision", "ops"], "1001")
    found = server.user(token)
    assert found is not None
    assert ("ann", "1001", ("vision", "ops", "system:authenticated")) == (
        found.name,
        found.uid,
        found.groups,
    )
    assert ["ann"] == [each.user for each in admin.revoke("ann")]
    assert server.user(token) is None
    assert server.user(admin_token(path)) is not None


def test_the_file_stays_private_and_contains_no_token(path: Path) -> None:
    token = TokenFile(path).give("ann", ["vision", "ops"])
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o600 == path.with_suffix(".lock").stat().st_mode & 0o777
    digest, rest = path.read_text().splitlines()[-1].split(",", 1)
    assert 'ann,,"vision,ops"' == rest
    assert token not in path.read_text()
    assert Tokens.load(path).user(token) is not None
    assert Tokens.load(path).user(digest) is None, "the digest is no token"


def test_tokens_in_plain_text_stay_valid_and_become_digests(path: Path) -> None:
    path.write_text(f"# by hand\nplain,{OWNER},,{ADMINS}\nother,ann,1001,vision\n")
    assert "plain" == admin_token(path)
    assert "plain" == admin_token(path, "plain")
    text = path.read_text()
    assert ("plain" not in text, "other" not in text, "# by hand" in text) == (True, True, True)
    found = Tokens.load(path).user("other")
    assert found is not None
    assert ("ann", "1001") == (found.name, found.uid)


def test_a_lost_admin_token_is_replaced_and_old_copies_stay_valid(path: Path) -> None:
    first = admin_token(path)
    second = admin_token(path, "wrong")
    assert first != second
    assert None not in map(Tokens.load(path).user, (first, second))


def test_a_list_distinguishes_tokens_and_shows_none(path: Path) -> None:
    tokens = TokenFile(path)
    given = [tokens.give("ann"), tokens.give("ann", ["vision"])]
    owner, first, second = tokens.holders()
    assert (OWNER, (ADMINS,)) == (owner.user, owner.groups)
    assert first.id != second.id
    assert not [each for each in given if first.id in each or second.id in each]
    tokens.revoke(id=first.id)
    assert [None, "ann"] == [found and found.name for found in map(tokens.user, given)]


def test_what_others_wrote_into_the_file_is_kept(path: Path) -> None:
    with path.open("a") as file:
        file.write("# a note\n")
    tokens = TokenFile(path)
    tokens.give("ann")
    tokens.revoke("ann")
    assert "# a note" == path.read_text().splitlines()[-1]


def test_a_file_that_cannot_be_read_changes_nothing(path: Path) -> None:
    token = admin_token(path)
    server = TokenFile(path)
    path.write_text("nonsense\n")
    assert server.user(token) is not None
    path.unlink()
    assert server.user(token) is not None


def test_many_at_once_lose_nothing(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda n: TokenFile(path).give(f"user{n}"), range(24)))
    server = TokenFile(path)
    assert [f"user{n}" for n in range(24)] == [
        found.name for found in map(server.user, given) if found is not None
    ]


@pytest.mark.parametrize(
    ("user", "group", "uid"),
    [
        ("", "a", ""),
        ("ann,bob", "a", ""),
        ("ann\nbob", "a", ""),
        ("system:admin", "a", ""),
        ("ann", "a,b", ""),
        ("ann", "system:authenticated", ""),
        ("ann", "a", "root"),
    ],
)
def test_names_that_could_mean_more_than_they_say_are_refused(
    path: Path, user: str, group: str, uid: str
) -> None:
    before = path.read_text()
    with pytest.raises(TokenError):
        TokenFile(path).give(user, [group], uid)
    assert before == path.read_text()
