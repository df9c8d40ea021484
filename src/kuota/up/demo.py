# SPDX-License-Identifier: Apache-2.0
"""The demo that `make up` runs: what is applied, what must happen, the summary. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from kuota.api.base import Json

GPU = "nvidia.com/gpu"
GPUS = 8
QUEUES = "1-queues.yaml"
SAVES = "/tmp/kuota-live"
"""The directory in the manifests where jobs save their work. The demo replaces it by its own."""


_POD_SET = "pod set main got no flavor: "


class EventType(StrEnum):
    """What can happen to a Job or a queue."""

    SUBMITTED = "submitted"
    BORROWS = "borrows"
    WAITS = "waits"
    ADMITTED = "admitted"
    RUNS = "runs"
    SAYS = "says"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class DemoEvent(msgspec.Struct, frozen=True):
    """One thing that happened to a Job (`namespace/name`) or a ClusterQueue (its name)."""

    who: str
    what: EventType
    text: str
    gpus: int = 0


class TimedEvent(msgspec.Struct, frozen=True):
    """An event and the number of seconds since the start."""

    at_s: float
    event: DemoEvent


class Expectation(msgspec.Struct, frozen=True):
    """An event that must occur before the demo continues; its text must contain `words`."""

    who: str
    what: EventType
    words: str = ""

    def matches(self, event: DemoEvent) -> bool:
        return (self.who, self.what) == (event.who, event.what) and self.words in event.text

    def __str__(self) -> str:
        return f"{self.who}: {self.what}" + (f" “{self.words}”" if self.words else "")


class DemoStep(msgspec.Struct, frozen=True):
    """A title, the manifest to apply (empty to only watch), and the expected events."""

    title: str
    manifest: str
    expectations: tuple[Expectation, ...]


TRAIN, GANG, PRETRAIN = "vision/train", "speech/gang", "research/pretrain"

STEPS = (
    DemoStep(
        "Vision owns 2 GPUs and requests 6. It borrows 4 idle GPUs from the other teams.",
        "2-borrow.yaml",
        (
            Expectation("vision", EventType.BORROWS),
            Expectation(TRAIN, EventType.RUNS),
            Expectation(TRAIN, EventType.SAYS, "step 2 "),
        ),
    ),
    DemoStep(
        "Speech submits a gang of 4 pods while 2 GPUs are free: none of the pods starts.",
        "3-gang.yaml",
        (Expectation(GANG, EventType.WAITS), Expectation(TRAIN, EventType.SAYS, "step 4 ")),
    ),
    DemoStep(
        "Research reclaims its own 4 GPUs. The borrower is preempted and saves its work.",
        "4-reclaim.yaml",
        (
            Expectation(TRAIN, EventType.PREEMPTED),
            Expectation(TRAIN, EventType.SAYS, "got TERM"),
            Expectation(PRETRAIN, EventType.RUNS),
            Expectation(GANG, EventType.RUNS),
        ),
    ),
    DemoStep(
        "Both run now, the gang as a whole. When they finish, vision resumes where it stopped.",
        "",
        (
            Expectation(PRETRAIN, EventType.FINISHED),
            Expectation(GANG, EventType.FINISHED),
            Expectation(TRAIN, EventType.SAYS, "resumes from"),
            Expectation(TRAIN, EventType.FINISHED),
        ),
    ),
)


class ObservedCondition(msgspec.Struct, frozen=True):
    """The fields of a condition that the demo reads."""

    status: str = ""
    reason: str = ""
    message: str = ""


class JobSummary(msgspec.Struct, frozen=True):
    """The summary of one Job."""

    job: str
    gpus: int
    waited_s: float
    ran_s: float
    preempted: int


def placed(manifest: Json, folder: str) -> Json:
    """A copy of the manifest whose job saves its work in the given directory."""
    made = copy.deepcopy(manifest)
    pod = made.get("spec", {}).get("template", {}).get("spec", {})
    for volume in pod.get("volumes") or ():
        if (volume.get("hostPath") or {}).get("path") == SAVES:
            volume["hostPath"]["path"] = folder
    return made


def workload_events(old: Json | None, new: Json | None) -> Iterator[DemoEvent]:
    """The events that a change of a Workload represents."""
    if new is None:
        return
    who, gpus = owner(new), _gpus(new)
    if old is None:
        yield DemoEvent(
            who, EventType.SUBMITTED, f"is submitted with {_pods(new)} and {gpus} GPUs", gpus
        )
    if _turned(old, new, "Evicted"):
        yield DemoEvent(
            who, EventType.PREEMPTED, f"is preempted ({_condition(new, 'Preempted').reason})"
        )
    if _shortage(new) and not _shortage(old):
        yield DemoEvent(who, EventType.WAITS, f"waits: {_shortage(new)}")
    if _turned(old, new, "Admitted"):
        yield DemoEvent(who, EventType.ADMITTED, f"is admitted with {gpus} GPUs")
    if _turned(old, new, "Finished"):
        yield DemoEvent(who, EventType.FINISHED, "has finished")


def job_events(old: Json | None, new: Json | None) -> Iterator[DemoEvent]:
    """The events that a change of a Job represents: all of its processes have started."""
    if new is None:
        return
    pods = new["spec"].get("parallelism") or 1
    if _begun(new) == pods > _begun(old):
        processes = "its process is running" if pods == 1 else f"all {pods} processes are running"
        yield DemoEvent(_name(new), EventType.RUNS, processes)


def queue_events(old: Json | None, new: Json | None) -> Iterator[DemoEvent]:
    """The events that a change of a ClusterQueue represents."""
    borrowed = _borrowed(new)
    if borrowed > _borrowed(old):
        assert new is not None
        text = f"borrows {borrowed} idle GPUs from other teams"
        yield DemoEvent(new["metadata"]["name"], EventType.BORROWS, text)


def repeated(events: Sequence[TimedEvent], event: DemoEvent) -> bool:
    """Whether the event repeats the last one. Pod counts and reasons fluctuate."""
    if event.what not in (EventType.RUNS, EventType.WAITS):
        return False
    passed = [each.event.what for each in events if each.event.who == event.who]
    last = [each for each in passed if each is not EventType.SAYS]
    return bool(last) and last[-1] is event.what


def summary(events: Sequence[TimedEvent]) -> list[JobSummary]:
    """One row per Job, in order of submission."""
    jobs = [each.event for each in events if each.event.what is EventType.SUBMITTED]
    return [_row(job, [each for each in events if each.event.who == job.who]) for job in jobs]


def owner(obj: Json) -> str:
    """The Job that a Workload or a Pod belongs to, as `namespace/name`."""
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or [{"name": metadata["name"]}]
    return f"{metadata['namespace']}/{owners[0]['name']}"


def _row(job: DemoEvent, events: Sequence[TimedEvent]) -> JobSummary:
    waited = ran = 0.0
    since = events[0].at_s
    for each in events:
        if each.event.what is EventType.RUNS:
            waited, since = waited + each.at_s - since, each.at_s
        elif each.event.what in (EventType.PREEMPTED, EventType.FINISHED):
            ran, since = ran + each.at_s - since, each.at_s
    preempted = sum(each.event.what is EventType.PREEMPTED for each in events)
    return JobSummary(job.who, job.gpus, waited, ran, preempted)


def _turned(old: Json | None, new: Json, kind: str) -> bool:
    return _condition(new, kind).status == "True" != _condition(old, kind).status


def _shortage(workload: Json | None) -> str:
    """What the Workload waits for; empty until its condition names it."""
    found = _condition(workload, "QuotaReserved")
    if found.status != "False" or GPU not in found.message:
        return ""
    return found.message.removeprefix(_POD_SET)


def _condition(obj: Json | None, kind: str) -> ObservedCondition:
    """The condition of this type, or an empty one."""
    for each in ((obj or {}).get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return msgspec.convert(each, ObservedCondition)
    return ObservedCondition()


def _gpus(workload: Json) -> int:
    total = 0
    for pod_set in workload["spec"]["podSets"]:
        for container in pod_set["template"]["spec"]["containers"]:
            resources = container.get("resources") or {}
            asked = (resources.get("requests") or {}) | (resources.get("limits") or {})
            total += int(pod_set["count"]) * int(asked.get(GPU) or 0)
    return total


def _pods(workload: Json) -> str:
    count = sum(int(each["count"]) for each in workload["spec"]["podSets"])
    return "1 pod" if count == 1 else f"{count} pods"


def _begun(job: Json | None) -> int:
    status = (job or {}).get("status") or {}
    return int(status.get("ready") or 0) + int(status.get("succeeded") or 0)


def _name(obj: Json) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _borrowed(queue: Json | None) -> int:
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    return sum(int(used.get("borrowed") or 0) for each in flavors for used in each["resources"])
