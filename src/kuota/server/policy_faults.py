# SPDX-License-Identifier: Apache-2.0
"""Validates ValidatingAdmissionPolicies and their bindings, including their expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kuota.api.base import Json, LabelSelector
from kuota.api.faults import FieldError, duplicate, invalid, required
from kuota.api.match import SelectorError, matches
from kuota.cel import CelError, expression

from .columns import listed, mapped
from .pod_faults import unsupported

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_SCOPES = ("Cluster", "Namespaced", "*")
_REASONS = ("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Deny", "Warn", "Audit")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MUST = "must be set"


def policy_faults(policy: Json) -> Iterator[FieldError]:
    spec = mapped(policy.get("spec"))
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        yield unsupported("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore"))
    constraints = mapped(spec.get("matchConstraints"))
    if not listed(constraints.get("resourceRules")):
        yield required("spec.matchConstraints.resourceRules", _MUST)
    yield from _match_faults(constraints, "spec.matchConstraints")
    validations = listed(spec.get("validations"))
    if not validations and not listed(spec.get("auditAnnotations")):
        yield required("spec.validations", "validations or auditAnnotations must be set")
    for at, each in enumerate(validations):
        yield from _validation_faults(mapped(each), f"spec.validations[{at}]")
    yield from _variable_faults(spec)
    for at, each in enumerate(listed(spec.get("matchConditions"))):
        path = f"spec.matchConditions[{at}]"
        yield from _expression_faults(each.get("expression"), f"{path}.expression", "BOOL")
    for at, each in enumerate(listed(spec.get("auditAnnotations"))):
        path = f"spec.auditAnnotations[{at}].valueExpression"
        yield from _expression_faults(each.get("valueExpression"), path, "STRING")


def _validation_faults(validation: Json, path: str) -> Iterator[FieldError]:
    yield from _expression_faults(validation.get("expression"), f"{path}.expression", "BOOL")
    message = validation.get("messageExpression")
    if message:
        yield from _expression_faults(message, f"{path}.messageExpression", "STRING")
    if "\n" in str(validation.get("message") or ""):
        yield invalid(f"{path}.message", validation["message"], "must not contain line breaks")
    if validation.get("reason") not in (None, "", *_REASONS):
        yield unsupported(f"{path}.reason", validation["reason"], _REASONS)


def _variable_faults(spec: Json) -> Iterator[FieldError]:
    seen: set[str] = set()
    for at, each in enumerate(listed(spec.get("variables"))):
        path, name = f"spec.variables[{at}]", str(each.get("name") or "")
        if not _NAME.fullmatch(name):
            yield invalid(f"{path}.name", name, "must be a CEL identifier such as podSpec")
        elif name in seen:
            yield duplicate(f"{path}.name", name, "is taken")
        seen.add(name)
        yield from _expression_faults(each.get("expression"), f"{path}.expression", "")


def _expression_faults(text: object, path: str, wanted: str) -> Iterator[FieldError]:
    """A fault if the expression does not compile, or cannot have the wanted type."""
    if not isinstance(text, str) or not text.strip():
        yield required(path, _MUST)
        return
    try:
        returns = expression(text).returns
    except CelError as error:
        yield invalid(path, text, f"compilation failed: {error}")
        return
    if wanted and returns not in (wanted, "DYN", "ANY"):
        yield invalid(path, text, f"must evaluate to {wanted.lower()}, not {returns.lower()}")


def _match_faults(match: Json, path: str) -> Iterator[FieldError]:
    for field in ("resourceRules", "excludeResourceRules"):
        for at, each in enumerate(listed(match.get(field))):
            yield from _rule_faults(mapped(each), f"{path}.{field}[{at}]")
    for field in ("namespaceSelector", "objectSelector"):
        try:
            matches(msgspec.convert(mapped(match.get(field)), LabelSelector), {})
        except (msgspec.ValidationError, SelectorError) as error:
            yield invalid(f"{path}.{field}", match.get(field), str(error))
    if match.get("matchPolicy") not in (None, "Exact", "Equivalent"):
        yield unsupported(f"{path}.matchPolicy", match["matchPolicy"], ("Exact", "Equivalent"))


def _rule_faults(rule: Json, path: str) -> Iterator[FieldError]:
    for field in ("apiGroups", "apiVersions", "operations", "resources"):
        if not listed(rule.get(field)):
            yield required(f"{path}.{field}", _MUST)
    for at, each in enumerate(listed(rule.get("operations"))):
        if each not in _OPERATIONS:
            yield unsupported(f"{path}.operations[{at}]", each, _OPERATIONS)
    if rule.get("scope") not in (None, *_SCOPES):
        yield unsupported(f"{path}.scope", rule["scope"], _SCOPES)


def policy_binding_faults(binding: Json) -> Iterator[FieldError]:
    spec = mapped(binding.get("spec"))
    if not spec.get("policyName"):
        yield required("spec.policyName", _MUST)
    actions = listed(spec.get("validationActions"))
    if not actions:
        yield required("spec.validationActions", _MUST)
    for at, each in enumerate(actions):
        if each not in _ACTIONS:
            yield unsupported(f"spec.validationActions[{at}]", each, _ACTIONS)
    if {"Deny", "Warn"} <= set(map(str, actions)):
        message = "must not contain both Deny and Warn: a denied request already has a message"
        yield invalid("spec.validationActions", actions, message)
    yield from _match_faults(mapped(spec.get("matchResources")), "spec.matchResources")
    yield from _param_faults(spec)


def _param_faults(spec: Json) -> Iterator[FieldError]:
    ref = spec.get("paramRef")
    if ref is None:
        return
    named, selected = bool(ref.get("name")), ref.get("selector") is not None
    if named == selected:
        yield invalid("spec.paramRef", ref, "must have either name or selector")
    if ref.get("parameterNotFoundAction") not in ("Allow", "Deny"):
        path = "spec.paramRef.parameterNotFoundAction"
        yield unsupported(path, ref.get("parameterNotFoundAction"), ("Allow", "Deny"))
