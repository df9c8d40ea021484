# SPDX-License-Identifier: Apache-2.0
"""Which requests an admission policy and its bindings match. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.match import SelectorError, matches

from .columns import listed, mapped

EVERY = "*"


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a request that rules refer to. `versions` are those of the kind."""

    operation: str
    group: str
    versions: tuple[str, ...]
    resource: str
    subresource: str = ""
    name: str = ""
    namespaced: bool = True
    labels: tuple[Mapping[str, str], ...] = ()
    """The labels of the object, and of the one that it replaces."""
    namespace_labels: Mapping[str, str] | None = None
    """None for an object without a namespace that is not a Namespace itself."""


def matches_request(constraints: Json, facts: RequestFacts) -> bool:
    """Whether `matchConstraints` of a policy, or `matchResources` of a binding, match.

    Rules that are absent match everything.
    """
    rules = constraints.get("resourceRules")
    if rules is not None and not _any(rules, facts):
        return False
    if _any(listed(constraints.get("excludeResourceRules")), facts):
        return False
    if facts.namespace_labels is not None and not _selected(
        constraints.get("namespaceSelector"), (facts.namespace_labels,)
    ):
        return False
    return _selected(constraints.get("objectSelector"), facts.labels)


def _any(rules: Iterable[Json], facts: RequestFacts) -> bool:
    return any(_rule_matches(mapped(each), facts) for each in rules)


def _rule_matches(rule: Json, facts: RequestFacts) -> bool:
    names = listed(rule.get("resourceNames"))
    scope = rule.get("scope") or EVERY
    return (
        _has(rule.get("operations"), facts.operation)
        and _has(rule.get("apiGroups"), facts.group)
        and any(_has(rule.get("apiVersions"), each) for each in facts.versions)
        and any(_names_resource(str(each), facts) for each in listed(rule.get("resources")))
        and (not names or facts.name in names)
        and scope in (EVERY, "Namespaced" if facts.namespaced else "Cluster")
    )


def _names_resource(pattern: str, facts: RequestFacts) -> bool:
    """Whether "jobs", "jobs/status", "jobs/*", "*/status", "*" or "*/*" names the resource."""
    resource, _, subresource = pattern.partition("/")
    if resource not in (EVERY, facts.resource):
        return False
    return subresource == facts.subresource or subresource == EVERY


def _has(values: object, value: str) -> bool:
    found = listed(values)
    return EVERY in found or value in found


def _selected(selector: Json | None, labels: Iterable[Mapping[str, str]]) -> bool:
    if not selector:
        return True
    try:
        wanted = msgspec.convert(selector, LabelSelector)
        return any(matches(wanted, each) for each in labels)
    except (msgspec.ValidationError, SelectorError):
        return False
