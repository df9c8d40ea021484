# SPDX-License-Identifier: Apache-2.0
"""`kuota dashboard` opens a browser without showing the one-time code to other users."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kuota.cli import dashboard

LINK = "https://127.0.0.1:6443/dashboard/sign-in?a=1&b=2#code=secret"


def test_the_browser_gets_the_code_in_a_private_file_and_not_as_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with ExitStack() as files:
        assert dashboard._opened(LINK, files)
        (url,) = opened
        page = Path(urlsplit(url).path)
        assert url.startswith("file://")
        assert "secret" not in url
        assert (page.parent.parent, page.parent.stat().st_mode & 0o777) == (tmp_path, 0o700)
        assert page.stat().st_mode & 0o777 == 0o600
        assert f'url={LINK.replace("&", "&amp;")}"' in page.read_text()
    assert not list(tmp_path.iterdir())


def test_a_browser_is_not_opened_without_a_place_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with ExitStack() as files:
        assert not dashboard._opened(LINK, files)
