# SPDX-License-Identifier: Apache-2.0
"""An API group that somebody else answers for, beside those that are kept in the store."""

from __future__ import annotations

from typing import Protocol

from .auth import Access
from .requests import Request, Response


class Extension(Protocol):
    """Serves every path under its `prefix`, such as `/apis/GROUP`."""

    prefix: str

    def access(self, request: Request) -> Access:
        """What the request wants to do, for the same roles to decide as everywhere."""

    def answer(self, request: Request) -> Response:
        """The answer to someone who may ask. Raises Refused."""


def serves(extension: Extension, path: str) -> bool:
    return path == extension.prefix or path.startswith(f"{extension.prefix}/")
