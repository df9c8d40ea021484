# SPDX-License-Identifier: Apache-2.0
"""What a Job's pod failure policy says about one failed pod. Pure."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json

from .job_pods import PodView, container_statuses

FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


class Verdict(msgspec.Struct, frozen=True):
    """The action of the first rule that matches, and why. Without a rule a failure counts."""

    action: str = COUNT
    message: str = ""


NO_RULE = Verdict()


def verdict(job: Json, view: PodView) -> Verdict:
    """The policy's word on a failed pod."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        why = _exit_code_match(rule, view) or _condition_match(rule, view)
        if why:
            action = rule.get("action") or COUNT
            return Verdict(action, f"{why} matching {action} rule at index {number}")
    return NO_RULE


def _exit_code_match(rule: Json, view: PodView) -> str:
    asked = rule.get("onExitCodes")
    if not asked:
        return ""
    values = asked.get("values") or ()
    for status in container_statuses(view.pod.get("status") or {}):
        name = status.get("name") or ""
        ended = (status.get("state") or {}).get("terminated")
        if not ended or (asked.get("containerName") or name) != name:
            continue
        code = ended.get("exitCode", 0)
        inside = code in values
        if code != 0 and inside == (asked.get("operator") == "In"):
            return f"Container {name} for pod {_name(view)} failed with exit code {code}"
    return ""


def _condition_match(rule: Json, view: PodView) -> str:
    have = {
        each.get("type"): each.get("status")
        for each in (view.pod.get("status") or {}).get("conditions") or ()
    }
    for pattern in rule.get("onPodConditions") or ():
        if have.get(pattern.get("type")) == (pattern.get("status") or "True"):
            return f"Pod {_name(view)} has condition {pattern['type']}"
    return ""


def _name(view: PodView) -> str:
    return f"{view.pod['metadata'].get('namespace') or ''}/{view.name}"
