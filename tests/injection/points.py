# SPDX-License-Identifier: Apache-2.0
"""All await points of controllers and runner, and modules in which one of them fails.

The modules are compiled from their own source with each `await x` rewritten to
`await _await_point_(id, x)`, likewise `async with` and `async for`.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple, TypeVar

import kuota
from kuota.kube.errors import ServerError

T = TypeVar("T")

ROOT = Path(kuota.__file__).parent
PACKAGES = ("control", "runner")
WITHIN = ("control/checks", "control/checks/provisioning", "control/checks/multikueue")
"""Packages below those."""


class Mode(StrEnum):
    """How a point fails, and whether what was awaited takes place."""

    BEFORE = "bug-before"
    AFTER = "bug-after"
    REFUSED = "refused"
    LOST = "answer-lost"
    STOP = "stop"


class Failure(NamedTuple):
    """One point that fails, at the first time that it is reached or a later one."""

    point: str
    mode: Mode
    nth: int = 1


class Plan:
    """At which points to fail, one after the other; how often each was reached, and returned from.

    `stop` ends the process.
    """

    def __init__(self) -> None:
        self.left: list[Failure] = []
        self.stop: Callable[[], Awaitable[None]] | None = None
        self.reached: Counter[str] = Counter()
        self.returned: Counter[str] = Counter()

    def arm(self, *failures: Failure) -> None:
        self.left = list(failures)
        self.reached.clear()
        self.returned.clear()

    async def enter(self, point: str) -> None:
        """Fail before what is awaited, if it is to be so."""
        self.reached[point] += 1
        nth = self.reached[point]
        if self._due(Failure(point, Mode.BEFORE, nth)):
            raise RuntimeError(f"injected before {point}")
        if self._due(Failure(point, Mode.REFUSED, nth)):
            raise ServerError(500, "InternalError", f"injected before {point}")
        if self._due(Failure(point, Mode.STOP, nth)):
            assert self.stop is not None
            await self.stop()

    def leave(self, point: str) -> None:
        """Fail after what was awaited, if it is to be so."""
        self.returned[point] += 1
        nth = self.returned[point]
        if self._due(Failure(point, Mode.AFTER, nth)):
            raise RuntimeError(f"injected after {point}")
        if self._due(Failure(point, Mode.LOST, nth)):
            raise ServerError(500, "InternalError", f"injected after {point}")

    def _due(self, now: Failure) -> bool:
        due = self.left[:1] == [now]
        if due:
            del self.left[0]
        return due


PLAN = Plan()


async def _await_point(point: str, awaited: Awaitable[T]) -> T:
    try:
        await PLAN.enter(point)
    except BaseException:
        _discard(awaited)
        raise
    result = await awaited
    PLAN.leave(point)
    return result


class _With:
    """A context manager that fails before it is entered, or after it was left."""

    def __init__(self, point: str, inner: AbstractAsyncContextManager[Any]) -> None:
        self._point = point
        self._inner = inner

    async def __aenter__(self) -> Any:
        await PLAN.enter(self._point)
        return await self._inner.__aenter__()

    async def __aexit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        handled = await self._inner.__aexit__(type_, error, trace)
        PLAN.leave(self._point)
        return handled


async def _each(point: str, inner: AsyncIterator[T]) -> AsyncIterator[T]:
    await PLAN.enter(point)
    async for each in inner:
        PLAN.leave(point)
        yield each


def _discard(awaited: object) -> None:
    """Let go of what is not awaited after all, and of coroutines that were given to it."""
    if inspect.iscoroutine(awaited):
        given = inspect.getcoroutinelocals(awaited).values()
        for each in filter(inspect.iscoroutine, given):
            each.close()
        awaited.close()
    elif isinstance(awaited, asyncio.Future):
        awaited.cancel()


class _Rewriter(ast.NodeTransformer):
    """Names points by function, in the order of the source."""

    def __init__(self, module: str) -> None:
        self.points: list[str] = []
        self.requests: list[str] = []
        self._path = [module]
        self._counts: Counter[str] = Counter()

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return super().visit(node)
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        return node

    def visit_Await(self, node: ast.Await) -> ast.Await:
        point = self._named()
        if "_client." in ast.unparse(node.value):
            self.requests.append(point)
        self.generic_visit(node)
        node.value = self._call("_await_point_", point, node.value)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AsyncWith:
        for item in node.items:
            item.context_expr = self._call("_with_point_", self._named(), item.context_expr)
        self.generic_visit(node)
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AsyncFor:
        node.iter = self._call("_for_point_", self._named(), node.iter)
        self.generic_visit(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        if node.is_async:
            node.iter = self._call("_for_point_", self._named(), node.iter)
        self.generic_visit(node)
        return node

    def _named(self) -> str:
        where = ".".join(self._path)
        self._counts[where] += 1
        self.points.append(f"{where}#{self._counts[where]}")
        return self.points[-1]

    @staticmethod
    def _call(name: str, point: str, wrapped: ast.expr) -> ast.Call:
        made = ast.Call(ast.Name(name, ast.Load()), [ast.Constant(point), wrapped], [])
        return ast.copy_location(made, wrapped)


def _rewritten(path: Path) -> tuple[ast.Module, _Rewriter]:
    tree = ast.parse(path.read_text())
    rewriter = _Rewriter(f"{path.parent.name}.{path.stem}")
    rewriter.visit(tree)
    return ast.fix_missing_locations(tree), rewriter


def points() -> dict[str, list[Mode]]:
    """All points, such as `control.driver.Driver._in_turn#1`, and how each can fail.

    The API server can refuse only where it is asked. Its errors come up from there.
    """
    bugs, refusals = [Mode.BEFORE, Mode.AFTER, Mode.STOP], [Mode.REFUSED, Mode.LOST]
    found: dict[str, list[Mode]] = {}
    folders = [ROOT / each for each in (*PACKAGES, *WITHIN)]
    for file in [each for folder in folders for each in sorted(folder.glob("*.py"))]:
        rewriter = _rewritten(file)[1]
        for point in rewriter.points:
            found[point] = bugs + (refusals if point in rewriter.requests else [])
    return found


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree, _ = _rewritten(Path(self.path))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        names = {"_await_point_": _await_point, "_with_point_": _With, "_for_point_": _each}
        vars(module).update(names)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _ours(name):
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin)
        return spec


def _ours(name: str) -> bool:
    return any(f"{name}.".startswith(f"kuota.{each}.") for each in PACKAGES)


@contextmanager
def _apart() -> Iterator[None]:
    """Import rewritten modules, and leave the real ones to everybody else."""
    kept = {name: module for name, module in sys.modules.items() if _ours(name)}
    packages = {each: getattr(kuota, each, None) for each in PACKAGES}
    finder = _Finder()
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if _ours(each)]:
            del sys.modules[name]
        sys.modules.update(kept)
        for each, package in packages.items():
            if package is not None:
                setattr(kuota, each, package)


def rewritten(*names: str) -> list[ModuleType]:
    """The modules of those names, and all that they import of the packages, with points in them."""
    with _apart():
        return [importlib.import_module(name) for name in names]
