# SPDX-License-Identifier: Apache-2.0
"""What the trainers of examples/two-trainers noted, and whether it is what was promised. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

LOW, HIGH, BYSTANDER = "low", "high", "bystander"


class Record(msgspec.Struct, frozen=True):
    """One line that a process wrote of itself. Times are those of the machine's one clock."""

    name: str
    pid: int
    what: str
    at_s: float
    devices: int | None = None
    device: str = ""
    visible: str | None = None
    step: int | None = None
    loss: float | None = None


class Claim(msgspec.Struct, frozen=True):
    """One thing that has to be true, and whether it is."""

    text: str
    holds: bool


class Run:
    """What one process noted, from its beginning to its end."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.name = records[0].name
        self.pid = records[0].pid
        self._by_what = {each.what: each for each in records}

    def noted(self, what: str) -> Record | None:
        return self._by_what.get(what)

    @property
    def whole(self) -> bool:
        return self.noted("begins") is not None and self.noted("ends") is not None

    @property
    def begin_s(self) -> float:
        return self._by_what["begins"].at_s

    @property
    def end_s(self) -> float:
        return self._by_what["ends"].at_s


def parsed(lines: bytes) -> list[Record]:
    """The records in a file; a line that is still being written is left out."""
    whole = lines.split(b"\n")[:-1]
    return [msgspec.json.decode(each, type=Record) for each in whole]


def runs(records: Iterable[Record]) -> list[Run]:
    """The records of each process, in the order in which they began."""
    by_pid: dict[int, list[Record]] = {}
    for each in records:
        by_pid.setdefault(each.pid, []).append(each)
    return [Run(each) for each in by_pid.values()]


def claims(records: Sequence[Record]) -> Iterator[Claim]:
    """All that the trial is to show, as far as the processes' own records tell."""
    found = runs(records)
    trainers = [each for each in found if each.name != BYSTANDER]
    names = [each.name for each in trainers]
    yield Claim(f"processes came in the order {', '.join(names)}", [LOW, HIGH, LOW] == names)
    yield Claim(
        f"all {len(trainers)} noted their beginning and their end",
        bool(trainers) and all(each.whole for each in trainers),
    )
    yield _apart(trainers)
    yield from _one_device(trainers)
    if [LOW, HIGH, LOW] == names:
        yield from _continued(*trainers)
    yield _nothing_seen([each for each in found if each.name == BYSTANDER])


def at_once(looks: Iterable[frozenset[int]], pids: Collection[int]) -> int | None:
    """How many of the processes were ever seen on the device together; None if none ever was."""
    found = [len(each & frozenset(pids)) for each in looks]
    return max(found, default=0) or None


def _apart(trainers: Sequence[Run]) -> Claim:
    if not all(each.whole for each in trainers):
        return Claim("no two of them ran at the same time", False)
    gaps = [later.begin_s - earlier.end_s for earlier, later in pairwise(trainers)]
    told = ", ".join(f"{each:.2f} s" for each in gaps)
    text = f"no two of them ran at the same time; between them passed {told}"
    return Claim(text, all(each >= 0 for each in gaps))


def _one_device(trainers: Sequence[Run]) -> Iterator[Claim]:
    seen = [each.noted("sees") for each in trainers]
    alone = all(each is not None and each.devices == 1 for each in seen)
    yield Claim("each saw exactly one device", bool(seen) and alone)
    ids = {each.device for each in seen if each is not None}
    shown = {each.visible for each in seen if each is not None}
    yield Claim(
        f"it was the same one, and the one given: {', '.join(sorted(ids))}",
        len(ids) == 1 and shown == ids,
    )


def _continued(first: Run, other: Run, second: Run) -> Iterator[Claim]:
    saved, resumed = first.noted("saved"), second.noted("resumes")
    step = saved.step if saved is not None else None
    yield Claim(f"the first saved on TERM, at step {step}", bool(step))
    yield Claim("the urgent one finished meanwhile", other.noted("finished") is not None)
    yield Claim(
        "the first went on at that very step, with that very loss, and finished",
        saved is not None
        and resumed is not None
        and (saved.step, saved.loss) == (resumed.step, resumed.loss)
        and second.noted("finished") is not None,
    )


def _nothing_seen(bystanders: Sequence[Run]) -> Claim:
    seen = [each.noted("sees") for each in bystanders]
    holds = [(each.devices, each.visible) for each in seen if each is not None] == [(0, "")]
    return Claim("a process that asked for no GPU saw none", holds)
