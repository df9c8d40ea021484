# SPDX-License-Identifier: Apache-2.0
"""The Jobs of a JobSet. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.rules.report import child, integer, text
from kuota.bridge.jobs.job_set import replicated_jobs

from .child_jobs import LOOPBACK, child_job, with_loopback

PREFIX = "jobset.sigs.k8s.io/"
REPLICATED_JOB = f"{PREFIX}replicatedjob-name"
ATTEMPT = f"{PREFIX}restart-attempt"
_COORDINATOR = f"{PREFIX}coordinator"
_DOMAIN = r"(?:\.{}(?:\.{}(?:\.svc(?:\.[a-z0-9.-]*[a-z0-9])?)?)?)?"


def replicas(replicated: Json) -> int:
    found = integer(replicated.get("replicas"))
    return 1 if found is None else max(0, found)


def restarts(job_set: Json) -> int:
    """How often all Jobs have been created again."""
    return integer(child(job_set, "status").get("restarts")) or 0


def jobs_of(job_set: Json, replicated: Json) -> Iterator[Json]:
    """The Jobs of one replicated Job."""
    names = _names(job_set)
    first = 0
    for each in replicated_jobs(job_set):
        if each is replicated or each.get("name") == replicated.get("name"):
            break
        first += replicas(each)
    template = child(replicated, "template")
    spec = _defaulted(child(template, "spec"))
    spec["template"] = with_loopback(child(spec, "template"), names)
    for index in range(replicas(replicated)):
        labels = _labels(job_set, replicated, index, first + index)
        yield child_job(
            job_set, job_name(job_set, replicated, index), template | {"spec": spec}, labels
        )


def job_name(job_set: Json, replicated: Json, index: int) -> str:
    return f"{job_set['metadata']['name']}-{text(replicated.get('name'))}-{index}"


def _defaulted(spec: Json) -> Json:
    """The spec of a Job with the defaults of JobSet."""
    found: Json = {"completionMode": "Indexed"} | spec
    if found["completionMode"] == "Indexed" and found.get("completions") is None:
        parallelism = found.get("parallelism")
        found["completions"] = 1 if parallelism is None else parallelism
    pod = child(found, "template")
    found["template"] = pod | {"spec": {"restartPolicy": "OnFailure"} | child(pod, "spec")}
    return found


def _labels(job_set: Json, replicated: Json, index: int, number: int) -> dict[str, str]:
    meta, every = job_set["metadata"], replicated_jobs(job_set)
    group = text(replicated.get("groupName")) or "default"
    mates = [each for each in every if (text(each.get("groupName")) or "default") == group]
    before = 0
    for each in mates:
        if each.get("name") == replicated.get("name"):
            break
        before += replicas(each)
    name = f"{meta.get('namespace')}/{job_name(job_set, replicated, index)}"
    labels = {
        "jobset-name": meta["name"],
        "jobset-uid": text(meta.get("uid")),
        "replicatedjob-name": text(replicated.get("name")),
        "restart-attempt": str(restarts(job_set)),
        "replicatedjob-replicas": str(replicas(replicated)),
        "global-replicas": str(sum(map(replicas, every))),
        "job-index": str(index),
        "job-key": hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(number),
        "group-name": group,
        "group-replicas": str(sum(map(replicas, mates))),
        "job-group-index": str(before + index),
    }
    found = {f"{PREFIX}{key}": value for key, value in labels.items()}
    if child(job_set, "spec").get("coordinator"):
        found[_COORDINATOR] = LOOPBACK
    return found


def _names(job_set: Json) -> re.Pattern[str]:
    """Matches the network names of the pods: NAME-REPLICATED-JOB-POD, perhaps with a domain."""
    meta = job_set["metadata"]
    subdomain = text(child(job_set, "spec", "network").get("subdomain")) or meta["name"]
    hosts = "|".join(re.escape(text(each.get("name"))) for each in replicated_jobs(job_set))
    domain = _DOMAIN.format(re.escape(subdomain), re.escape(text(meta.get("namespace"))))
    return re.compile(
        rf"(?<![a-zA-Z0-9.-]){re.escape(meta['name'])}-(?:{hosts})-\d+-\d+{domain}(?![a-zA-Z0-9-])"
    )
