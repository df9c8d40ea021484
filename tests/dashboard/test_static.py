# SPDX-License-Identifier: Apache-2.0
"""The static files: unmodified libraries, safe scripts, and nothing that is fetched elsewhere."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from hang import HANG_S
from kuota.dashboard.static_files import DIRECTORY, INDEX

VENDOR = DIRECTORY / "vendor"
TYPES_ONLY = "js/shapes.js"
_IMPORT = re.compile(r'\bimport\b[^"]*?"([^"]+)"')
_FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "dangerouslySetInnerHTML",
    "document.write",
    "DOMParser",
    "eval(",
    "new Function",
    "setAttribute",
    "srcdoc",
)
MOST_LINES = 400


def own_scripts() -> list[Path]:
    return sorted((DIRECTORY / "js").rglob("*.js"))


def name(path: Path) -> str:
    return str(path.relative_to(DIRECTORY))


def test_libraries_are_what_was_published() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    listed = {path: checksum for checksum, path in (each.split(maxsplit=1) for each in lines)}
    found = {
        f"./{path.relative_to(VENDOR)}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name not in ("SHA256SUMS", "README.md")
    }
    assert listed == found


def test_each_library_has_its_license() -> None:
    readme = (VENDOR / "README.md").read_text()
    for each in VENDOR.iterdir():
        if each.is_dir():
            assert (each / "LICENSE").is_file(), each.name
            assert f"| {each.name} |" in readme, "the table names every library"


@pytest.mark.parametrize("script", own_scripts(), ids=name)
def test_text_reaches_the_page_as_text(script: Path) -> None:
    source = script.read_text()
    assert [] == [each for each in _FORBIDDEN if each in source]


def test_no_file_of_ours_names_another_host() -> None:
    found = [
        f"{name(path)}: {each}"
        for path in DIRECTORY.rglob("*")
        if path.is_file() and VENDOR not in path.parents
        for each in re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`]*""", path.read_text())
    ]
    assert ["icon.svg: http://www.w3.org/2000/svg"] == found


def imported(script: Path) -> Iterator[Path]:
    for each in _IMPORT.findall(script.read_text()):
        assert each.startswith("."), f"{name(script)}: browsers cannot resolve {each!r}"
        yield (script.parent / each).resolve()


def test_imports_exist_and_are_preloaded() -> None:
    page = (DIRECTORY / INDEX).read_text()
    linked = set(re.findall(r'rel="modulepreload" href="/dashboard/static/([^"]+)"', page))
    needed = {
        str(each.relative_to(DIRECTORY))
        for script in own_scripts()
        if name(script) != TYPES_ONLY
        for each in imported(script)
    }
    assert all((DIRECTORY / each).is_file() for each in needed)
    assert needed - {TYPES_ONLY} == linked, "index.html lists the modules, to load them at once"


def test_files_of_the_page_exist() -> None:
    page = (DIRECTORY / INDEX).read_text()
    for each in re.findall(r'(?:href|src)="/dashboard/static/([^"]+)"', page):
        assert (DIRECTORY / each).is_file(), each
    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "the policy forbids inline scripts"
    assert "style=" not in page


@pytest.mark.parametrize("path", [*own_scripts(), *sorted(DIRECTORY.glob("css/*.css"))], ids=name)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert "SPDX-License-Identifier: Apache-2.0" in path.read_text()


@pytest.mark.slow
def test_the_wheel_contains_exactly_the_files_of_the_repository(tmp_path: Path) -> None:
    root = DIRECTORY.parents[3]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=HANG_S)
    prefix = "kuota/dashboard/static/"
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        shipped = {
            each.removeprefix(prefix): wheel.read(each)
            for each in wheel.namelist()
            if each.startswith(prefix)
        }
    files = {name(path): path.read_bytes() for path in DIRECTORY.rglob("*") if path.is_file()}
    assert files == shipped
