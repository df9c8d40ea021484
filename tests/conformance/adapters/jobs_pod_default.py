# SPDX-License-Identifier: Apache-2.0
"""The suite of the defaults of Pods."""

from __future__ import annotations

from conformance.case import Json, Run, refused, same
from conformance.jobs import local_queue, selector, stored
from conformance.recorder import convert, whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import LabelSelector
from kuota.bridge.jobs.ancestor import NestingError, owners_of
from kuota.bridge.jobs.job_webhook import defaulted
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.lifecycle_view import LifecycleConfig

KIND = PodKind()


@suite(
    "jobs/pod-TestDefault",
    exercises=Exercise.PATH,
    ignores={
        "inputs.shared": "the namespace, which is among the objects too",
        "inputs.podSelector": "no configuration sets it, neither in Kueue; see skips.toml",
    },
)
def defaults(run: Run) -> None:
    given, pod = run.inputs, _with_requests(whole(run.inputs["pod"]))
    around = whole(given["initObjects"])
    if given["defaultLqExist"]:
        around.append(local_queue("default", pod["metadata"]["namespace"]))
    config = LifecycleConfig(
        gates=gates_of(run),
        manage_all=given["manageJobsWithoutQueueName"],
        namespaces=_namespaces(run),
        owners=owners_of(["pod", *(whole(given.get("enableIntegrations")) or ())]),
    )
    found, error = pod, None
    try:
        found = defaulted(KIND, pod, stored(around), config)
    except NestingError as nesting:
        error = nesting
    refused(run.expected["wantErr"], error)
    same(run.expected["want"], found)


def _namespaces(run: Run) -> LabelSelector:
    """The selector of managed namespaces. The older one of the pod options has the same effect."""
    older = run.inputs.get("namespaceSelector")
    newer = whole(run.inputs.get("managedJobsNamespaceSelector"))
    if older is not None:
        return convert(older, LabelSelector)
    return selector(newer if isinstance(newer, str) else None)


def _with_requests(pod: Json) -> Json:
    """The containers of the test have an empty map of requests, which the record leaves out.

    It is part of the role, as in Kueue.
    """
    for each in pod["spec"]["containers"]:
        each["resources"].setdefault("requests", {})
    return pod
