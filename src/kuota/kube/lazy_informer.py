# SPDX-License-Identifier: Apache-2.0
"""An informer that does nothing until something needs its objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from .cache import Decode, Indexer, never_packed
from .client import Client
from .clock import Clock
from .informer import Informer
from .resources import Resource

T = TypeVar("T")


class LazyInformer(Informer[T]):
    """An informer of a kind with many objects that change often, such as Nodes and Pods.

    Until `need` is called, `run` neither lists nor watches, and the cache is empty.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        decode: Decode[T],
        indexers: Mapping[str, Indexer[T]] | None = None,
        packs: Callable[[T], bool] = never_packed,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            client, resource, decode=decode, indexers=indexers, packs=packs, clock=clock
        )
        self._needed = asyncio.Event()

    @property
    def needed(self) -> bool:
        return self._needed.is_set()

    def need(self) -> None:
        """List and watch from now on, if `run` runs."""
        self._needed.set()

    def keep(self, decode: Decode[T], packs: Callable[[T], bool]) -> None:
        """Change what is kept of objects. Allowed only before they are needed."""
        assert not self.needed, f"{self.resource} are already cached"
        self._decode, self._packs = decode, packs

    async def run(self) -> None:
        """Wait until the objects are needed, then list and watch until cancelled."""
        await self._needed.wait()
        await super().run()
