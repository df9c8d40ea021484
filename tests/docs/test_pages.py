# SPDX-License-Identifier: Apache-2.0
"""The commands and manifests of README, docs and examples work as written, for all users."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.account import Account
from docs.pages import ROOT, pages, script
from up.machine import open_folder

PAGES = [each for each in pages() if script(each)]
SAVED = re.compile(r"/tmp/kuota-[a-z-]+")
"""Where the processes of examples save their work."""

MY_GPU = re.compile(r"^GPU \S+ is mine$", re.M)
"""What the Job of the README prints."""


def users() -> list[str]:
    """Root and an ordinary user, or only the user who runs the tests."""
    own = pwd.getpwuid(os.geteuid()).pw_name
    return ["root", "nobody"] if os.geteuid() == 0 else [own]


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_as_written(folder: Path, page: str, user: str) -> None:
    account = Account(folder, user)
    forget(page)
    try:
        done = account.run(script(page))
        assert 0 == done.returncode, done.stdout
        assert page != "README.md" or MY_GPU.search(done.stdout), done.stdout
    finally:
        account.run("kuota status >/dev/null && kuota down --kill || true")
        forget(page)


@pytest.mark.slow
def test_the_readme_works_for_an_ordinary_user(folder: Path) -> None:
    """The part about one machine; the whole page, as each user, is among the slow tests."""
    commands = script("README.md").replace("\nmake up ", "\n: make up ")
    account = Account(folder, users()[-1])
    done = account.run(commands)
    account.run("kuota status >/dev/null && kuota down --kill || true")
    assert 0 == done.returncode, done.stdout
    assert MY_GPU.search(done.stdout), done.stdout


def forget(page: str) -> None:
    """Remove what a run of this page's example, by whichever user, left outside its state."""
    for manifest in (ROOT / page).parent.glob("*.yaml"):
        for path in map(Path, SAVED.findall(manifest.read_text())):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
