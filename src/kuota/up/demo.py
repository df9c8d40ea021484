# SPDX-License-Identifier: Apache-2.0
"""The story that `make up` tells: what is applied, what is waited for, what it came to. Pure."""

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
"""Where the manifests have work saved. The story has a folder of its own instead."""


_POD_SET = "pod set main got no flavor: "


class What(StrEnum):
    """What can be seen to happen to a Job, or to a queue."""

    SUBMITTED = "submitted"
    BORROWS = "borrows"
    WAITS = "waits"
    ADMITTED = "admitted"
    RUNS = "runs"
    SAYS = "says"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class Sight(msgspec.Struct, frozen=True):
    """One thing that happened to a Job (`namespace/name`) or a ClusterQueue (its name)."""

    who: str
    what: What
    text: str
    gpus: int = 0


class Seen(msgspec.Struct, frozen=True):
    """A sight, and how many seconds after the start it was."""

    at_s: float
    sight: Sight


class Awaited(msgspec.Struct, frozen=True):
    """What has to happen before the story goes on; `words` have to be in the sight's text."""

    who: str
    what: What
    words: str = ""

    def matches(self, sight: Sight) -> bool:
        return (self.who, self.what) == (sight.who, sight.what) and self.words in sight.text

    def __str__(self) -> str:
        return f"{self.who}: {self.what}" + (f" “{self.words}”" if self.words else "")


class Act(msgspec.Struct, frozen=True):
    """A headline, the manifest to apply (none for an act that only watches), and its outcome."""

    title: str
    manifest: str
    awaits: tuple[Awaited, ...]


TRAIN, GANG, PRETRAIN = "vision/train", "speech/gang", "research/pretrain"

STORY = (
    Act(
        "Vision owns 2 GPUs and asks for 6. The others are idle, so it borrows 4.",
        "2-borrow.yaml",
        (
            Awaited("vision", What.BORROWS),
            Awaited(TRAIN, What.RUNS),
            Awaited(TRAIN, What.SAYS, "step 2 "),
        ),
    ),
    Act(
        "Speech brings a gang of 4 pods, and 2 GPUs are free: none of the pods starts.",
        "3-gang.yaml",
        (Awaited(GANG, What.WAITS), Awaited(TRAIN, What.SAYS, "step 4 ")),
    ),
    Act(
        "Research wants the 4 GPUs that it owns. The borrower has to go, and saves its work.",
        "4-reclaim.yaml",
        (
            Awaited(TRAIN, What.PREEMPTED),
            Awaited(TRAIN, What.SAYS, "got TERM"),
            Awaited(PRETRAIN, What.RUNS),
            Awaited(GANG, What.RUNS),
        ),
    ),
    Act(
        "Both run now, the gang as a whole. When they are done, vision goes on where it was.",
        "",
        (
            Awaited(PRETRAIN, What.FINISHED),
            Awaited(GANG, What.FINISHED),
            Awaited(TRAIN, What.SAYS, "resumes from"),
            Awaited(TRAIN, What.FINISHED),
        ),
    ),
)


class Condition(msgspec.Struct, frozen=True):
    """What of a condition the story looks at."""

    status: str = ""
    reason: str = ""
    message: str = ""


class Row(msgspec.Struct, frozen=True):
    """What the whole came to for one Job."""

    job: str
    gpus: int
    waited_s: float
    ran_s: float
    preempted: int


def placed(manifest: Json, folder: str) -> Json:
    """The manifest with its work saved in that folder."""
    made = copy.deepcopy(manifest)
    pod = made.get("spec", {}).get("template", {}).get("spec", {})
    for volume in pod.get("volumes") or ():
        if (volume.get("hostPath") or {}).get("path") == SAVES:
            volume["hostPath"]["path"] = folder
    return made


def workload_sights(old: Json | None, new: Json | None) -> Iterator[Sight]:
    """What a change of a Workload shows."""
    if new is None:
        return
    who, gpus = owner(new), _gpus(new)
    if old is None:
        yield Sight(who, What.SUBMITTED, f"is submitted, for {_pods(new)} and {gpus} GPUs", gpus)
    if _turned(old, new, "Evicted"):
        yield Sight(who, What.PREEMPTED, f"is preempted ({_condition(new, 'Preempted').reason})")
    if _shortage(new) and not _shortage(old):
        yield Sight(who, What.WAITS, f"waits whole: {_shortage(new)}")
    if _turned(old, new, "Admitted"):
        yield Sight(who, What.ADMITTED, f"is admitted whole: {gpus} GPUs")
    if _turned(old, new, "Finished"):
        yield Sight(who, What.FINISHED, "has finished")


def job_sights(old: Json | None, new: Json | None) -> Iterator[Sight]:
    """What a change of a Job shows: the moment from which all of its processes run."""
    if new is None:
        return
    pods = new["spec"].get("parallelism") or 1
    if _begun(new) == pods > _begun(old):
        processes = "its process runs" if pods == 1 else f"its {pods} processes run"
        yield Sight(_name(new), What.RUNS, processes)


def queue_sights(old: Json | None, new: Json | None) -> Iterator[Sight]:
    """What a change of a ClusterQueue shows."""
    borrowed = _borrowed(new)
    if borrowed > _borrowed(old):
        assert new is not None
        text = f"uses {borrowed} idle GPUs of the other teams"
        yield Sight(new["metadata"]["name"], What.BORROWS, text)


def repeated(seen: Sequence[Seen], sight: Sight) -> bool:
    """Whether that is known already: counts of pods and reasons to wait go up and down."""
    if sight.what not in (What.RUNS, What.WAITS):
        return False
    passed = [each.sight.what for each in seen if each.sight.who == sight.who]
    last = [each for each in passed if each is not What.SAYS]
    return bool(last) and last[-1] is sight.what


def summary(seen: Sequence[Seen]) -> list[Row]:
    """One row for each Job, in the order in which they came."""
    jobs = [each.sight for each in seen if each.sight.what is What.SUBMITTED]
    return [_row(job, [each for each in seen if each.sight.who == job.who]) for job in jobs]


def owner(obj: Json) -> str:
    """The Job that a Workload or a Pod belongs to, as `namespace/name`."""
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or [{"name": metadata["name"]}]
    return f"{metadata['namespace']}/{owners[0]['name']}"


def _row(job: Sight, seen: Sequence[Seen]) -> Row:
    waited = ran = 0.0
    since = seen[0].at_s
    for each in seen:
        if each.sight.what is What.RUNS:
            waited, since = waited + each.at_s - since, each.at_s
        elif each.sight.what in (What.PREEMPTED, What.FINISHED):
            ran, since = ran + each.at_s - since, each.at_s
    preempted = sum(each.sight.what is What.PREEMPTED for each in seen)
    return Row(job.who, job.gpus, waited, ran, preempted)


def _turned(old: Json | None, new: Json, kind: str) -> bool:
    return _condition(new, kind).status == "True" != _condition(old, kind).status


def _shortage(workload: Json | None) -> str:
    """What the Workload waits for, once its condition names it; empty before."""
    found = _condition(workload, "QuotaReserved")
    if found.status != "False" or GPU not in found.message:
        return ""
    return found.message.removeprefix(_POD_SET)


def _condition(obj: Json | None, kind: str) -> Condition:
    """The condition of that type, an empty one where there is none."""
    for each in ((obj or {}).get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return msgspec.convert(each, Condition)
    return Condition()


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
