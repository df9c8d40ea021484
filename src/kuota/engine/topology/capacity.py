# SPDX-License-Identifier: Apache-2.0
"""Capacities of leaves as interned vectors, and how many pods fit each of them.

Most nodes of a cluster have the same capacity, and many have the same free capacity. Each distinct
vector is stored once and has a number. A leaf stores only that number, and how many pods of a kind
fit is computed once per vector instead of once per node (`PerVector`). Numbers of vectors that no
leaf uses are reused. A log of changed numbers tells which values have to be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

PODS = "pods"
MAX_PODS = 2**31 - 1
"""The largest count of the API. A request of zero fits this often."""

Vector = tuple[int, ...]
"""An amount per column, without trailing zeros. Missing amounts are zero."""

_LOGGED = 4096

T = TypeVar("T")


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """Amounts per column of one pod, sorted by resource name, and those of its leader if any."""

    requests: tuple[tuple[int, int], ...]
    leader: tuple[tuple[int, int], ...] | None = None


class PodCount(msgspec.Struct, frozen=True, gc=False):
    """How many pods fit: without the leader and `with_leader`. `leader` is 1 if the leader fits.

    If the leader does not fit, `with_leader` equals `pods`.
    """

    pods: int
    with_leader: int
    leader: int = 0


class CapacityVectors:
    """The distinct capacities of all leaves. `amounts` maps the number of a vector to its value."""

    def __init__(self) -> None:
        self.amounts: list[Vector] = []
        self.columns: dict[str, int] = {}
        self._numbers: dict[Vector, int] = {}
        self._uses: list[int] = []
        self._unused: list[int] = []
        self._log: list[int] = []
        self._dropped = 0

    def column(self, resource: str) -> int:
        """Return the column of a resource; an unknown resource gets a new one."""
        return self.columns.setdefault(resource, len(self.columns))

    def resource(self, column: int) -> str:
        """Return the name of the resource in this column."""
        return next(name for name, each in self.columns.items() if each == column)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        values = {self.column(resource): amount for resource, amount in amounts.items()}
        return trimmed([values.get(i, 0) for i in range(max(values, default=-1) + 1)])

    def sparse(self, amounts: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """Return (column, amount) pairs in the order of resource names."""
        return tuple((self.column(name), amounts[name]) for name in sorted(amounts))

    def mapping(self, vector: Vector) -> dict[str, int]:
        """Return the amounts by resource, without zeros."""
        named = zip(self.columns, vector, strict=False)
        return {resource: amount for resource, amount in named if amount}

    def acquire(self, vector: Vector) -> int:
        """Return the number of the vector and count one more use of it."""
        number = self._numbers.get(vector)
        if number is None:
            number = self._new(vector)
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Count one use less. The number of an unused vector may be reused."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self.amounts[number]]
            self._unused.append(number)

    def _new(self, vector: Vector) -> int:
        if self._unused:
            number = self._unused.pop()
            self.amounts[number] = vector
        else:
            number = len(self.amounts)
            self.amounts.append(vector)
            self._uses.append(0)
        self._numbers[vector] = number
        self._log.append(number)
        if len(self._log) > _LOGGED + len(self.amounts):
            self._dropped += len(self._log)
            self._log.clear()
        return number

    @property
    def position(self) -> int:
        """The end of the log of changed numbers."""
        return self._dropped + len(self._log)

    def changed_since(self, position: int) -> list[int] | None:
        """Return the numbers whose vectors changed, or None if the log no longer reaches back."""
        return self._log[position - self._dropped :] if position >= self._dropped else None


class PerVector(Generic[T]):
    """A value computed from each vector. `values` is indexed by the vector's number."""

    def __init__(self, vectors: CapacityVectors, compute: Callable[[Vector], T]) -> None:
        self._vectors = vectors
        self._compute = compute
        self._position = -1
        self.values: list[T] = []

    def refresh(self) -> None:
        """Bring `values` up to date with the vectors."""
        vectors = self._vectors
        if self._position == vectors.position:
            return
        numbers = vectors.changed_since(self._position)
        if numbers is None:
            self.values = [self._compute(vector) for vector in vectors.amounts]
        else:
            for number in numbers:
                value = self._compute(vectors.amounts[number])
                if number < len(self.values):
                    self.values[number] = value
                else:
                    self.values.append(value)
        self._position = vectors.position


def pod_count(vector: Vector, kind: PodRequests) -> PodCount:
    """Return how many pods of the kind fit the capacity."""
    pods = fitting(vector, kind.requests)
    if kind.leader is None:
        return PodCount(pods, pods)
    if not fitting(vector, kind.leader):
        return PodCount(pods, pods)
    rest = changed(vector, kind.leader, -1)
    return PodCount(pods, fitting(rest, kind.requests), 1)


def fitting(vector: Vector, requests: tuple[tuple[int, int], ...]) -> int:
    """Return how often the requests fit the capacity. Without requests nothing fits."""
    size = len(vector)
    least = MAX_PODS
    for column, amount in requests:
        if amount > 0:
            count = vector[column] // amount if column < size else 0
            if count < least:
                least = count
                if count <= 0:
                    return 0
    return least if requests else 0


def limiting(vector: Vector, requests: tuple[tuple[int, int], ...]) -> int | None:
    """Return the column that prevents even one pod: the first one, by name, without room for it."""
    size = len(vector)
    for column, amount in requests:
        if amount > 0 and (column >= size or vector[column] < amount):
            return column
    return None


def changed(vector: Vector, requests: tuple[tuple[int, int], ...], times: int) -> Vector:
    """Return the vector plus the requests, taken `times` times."""
    values = list(vector)
    for column, amount in requests:
        if column >= len(values):
            values.extend([0] * (column + 1 - len(values)))
        values[column] += amount * times
    return trimmed(values)


def summed(a: Vector, b: Vector, times: int = 1) -> Vector:
    """Return a + times x b."""
    if not b:
        return a
    short = len(b) - len(a)
    values = [x + times * y for x, y in zip(a + (0,) * short, b + (0,) * -short, strict=True)]
    return trimmed(values)


def trimmed(values: list[int]) -> Vector:
    while values and not values[-1]:
        values.pop()
    return tuple(values)
