# SPDX-License-Identifier: Apache-2.0
"""Evaluates ValidatingAdmissionPolicies, as the validator of a server.

A policy applies if one of its bindings does, and both match the request. A violation is handled as
the binding's `validationActions` demand. Audit annotations and the action Audit have no effect,
because this server keeps no audit log. Policies do not apply to policies and bindings, so that a
wrong one can always be corrected.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kuota.api.base import Json, Key, LabelSelector, group_of
from kuota.api.match import SelectorError, matches
from kuota.api.status import StatusError
from kuota.cel import CelError, expression

from .admission import Deletion, Review
from .builtin_kinds import ADMISSION_GROUP
from .columns import dig, listed, mapped
from .kinds import Kind, Kinds
from .policy_matching import RequestFacts, matches_request
from .status import forbidden
from .store import Store

POLICIES = f"validatingadmissionpolicies.{ADMISSION_GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{ADMISSION_GROUP}"
BUDGET_S = 1.0
"""The time for all policies of one request. Then the failure policy of the rest applies."""

_USED = re.compile(r"\bvariables\.([A-Za-z_][A-Za-z0-9_]*)")
_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class _Violation(msgspec.Struct, frozen=True):
    message: str
    reason: str = "Invalid"


class AdmissionPolicies:
    """Applies the stored policies to every request. See `kuota.server.admission.Validator`."""

    def __init__(
        self, store: Store, kinds: Kinds, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock

    def __call__(self, request: Review | Deletion) -> Sequence[str]:
        """Return the warnings of the policies. Raises StatusError if one denies it."""
        if request.kind.group == ADMISSION_GROUP:
            return ()
        bindings = self._store.list(BINDINGS).items
        if not bindings:
            return ()
        facts, values = self._facts(request), self._values(request)
        until = self._clock() + BUDGET_S
        warnings: list[str] = []
        for binding in bindings:
            policy = self._policy(binding, facts)
            if policy is not None:
                for each in self._violations(policy, binding, values, until):
                    warnings += _handled(request, policy, binding, each)
        return warnings

    def _policy(self, binding: Json, facts: RequestFacts) -> Json | None:
        """The policy of the binding, if both match the request."""
        spec = mapped(binding.get("spec"))
        policy = self._store.get(POLICIES, Key("", str(spec.get("policyName") or "")))
        constraints = mapped(dig(policy, "spec", "matchConstraints"))
        if policy is None or not matches_request(constraints, facts):
            return None
        return policy if matches_request(mapped(spec.get("matchResources")), facts) else None

    def _violations(
        self, policy: Json, binding: Json, values: Json, until: float
    ) -> Iterator[_Violation]:
        params, missing = self._params(policy, binding, values)
        if missing:
            yield _Violation(missing)
        for param in params:
            scope = _Scope(policy, values | {"params": param}, lambda: self._clock() < until)
            yield from scope.violations()

    def _params(self, policy: Json, binding: Json, values: Json) -> tuple[list[Json | None], str]:
        """The parameter objects; with a reason if there is none and that denies the request."""
        kind, ref = dig(policy, "spec", "paramKind"), mapped(dig(binding, "spec", "paramRef"))
        if not kind or not ref:
            return [None], ""
        group = group_of(str(kind.get("apiVersion") or ""))
        found = self._kinds.of_kind(group, str(kind.get("kind") or ""))
        params = [] if found is None else self._named(found, ref, values)
        if params or ref.get("parameterNotFoundAction") == "Allow":
            return params, ""
        return (
            [],
            "failed to configure binding: no params found for policy binding with `Deny` "
            "parameterNotFoundAction",
        )

    def _named(self, kind: Kind, ref: Json, values: Json) -> list[Json | None]:
        place = ref.get("namespace") or mapped(values["request"]).get("namespace") or ""
        namespace = str(place) if kind.namespaced else ""
        if ref.get("name"):
            found = self._store.get(kind.stored_as, Key(namespace, str(ref["name"])))
            return [] if found is None else [found]
        every = self._store.list(kind.stored_as, namespace if kind.namespaced else None).items
        try:
            wanted = msgspec.convert(mapped(ref.get("selector")), LabelSelector)
            return [each for each in every if matches(wanted, dig(each, "metadata", "labels"))]
        except (msgspec.ValidationError, SelectorError):
            return []

    def _facts(self, request: Review | Deletion) -> RequestFacts:
        kind, obj = request.kind, request.object
        old = request.old if isinstance(request, Review) else None
        return RequestFacts(
            operation=_operation(request),
            group=kind.group,
            versions=tuple(each.name for each in kind.versions),
            resource=kind.plural,
            subresource=_subresource(request),
            name=str(dig(obj, "metadata", "name") or ""),
            namespaced=kind.namespaced,
            labels=tuple(_labels(each) for each in (obj, old) if each is not None),
            namespace_labels=self._namespace_labels(kind, obj),
        )

    def _namespace_labels(self, kind: Kind, obj: Json) -> Mapping[str, str] | None:
        if kind.resource == "namespaces":
            return _labels(obj)
        return _labels(self._namespace(obj) or {}) if kind.namespaced else None

    def _namespace(self, obj: Json) -> Json | None:
        name = str(dig(obj, "metadata", "namespace") or "")
        return self._store.get("namespaces", Key("", name)) if name else None

    def _values(self, request: Review | Deletion) -> Json:
        deleting = isinstance(request, Deletion)
        return {
            "object": None if deleting else request.object,
            "oldObject": request.object if isinstance(request, Deletion) else request.old,
            "request": _request(request),
            "namespaceObject": self._namespace(request.object),
        }


class _Scope:
    """The evaluation of one policy for one request and one parameter object."""

    def __init__(self, policy: Json, values: Json, in_time: Callable[[], bool]) -> None:
        self._spec = mapped(policy.get("spec"))
        self._values = values
        self._in_time = in_time
        self._variables = {
            str(each.get("name")): str(each.get("expression"))
            for each in listed(self._spec.get("variables"))
        }
        self._known: dict[str, Any] = {}

    def violations(self) -> Iterator[_Violation]:
        try:
            applies = self._applies()
        except CelError as error:
            if self._fails:
                yield _Violation(f"error evaluating match conditions: {error}")
            return
        if not applies:
            return
        for each in listed(self._spec.get("validations")):
            found = self._violation(mapped(each))
            if found is not None:
                yield found

    @property
    def _fails(self) -> bool:
        return self._spec.get("failurePolicy") != "Ignore"

    def _applies(self) -> bool:
        """Whether all conditions hold. One that does not outweighs errors of others."""
        fault: CelError | None = None
        for each in listed(self._spec.get("matchConditions")):
            try:
                if self._value(str(each.get("expression"))) is not True:
                    return False
            except CelError as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return True

    def _violation(self, validation: Json) -> _Violation | None:
        text = str(validation.get("expression"))
        try:
            if self._value(text) is True:
                return None
        except CelError as error:
            said = f"expression '{text}' resulted in error: {error}"
            return _Violation(said) if self._fails else None
        return _Violation(self._message(validation), str(validation.get("reason") or "Invalid"))

    def _message(self, validation: Json) -> str:
        computed = validation.get("messageExpression")
        if computed:
            try:
                said = self._value(str(computed))
            except CelError:
                said = None
            if isinstance(said, str) and said.strip() and "\n" not in said:
                return said.strip()
        return str(validation.get("message") or f"failed expression: {validation['expression']}")

    def _value(self, text: str, above: tuple[str, ...] = ()) -> Any:
        """The value of an expression, with the variables that it uses."""
        if not self._in_time():
            raise CelError(f"policies took longer than {BUDGET_S:.0f} s")
        for name in _USED.findall(text):
            if name in self._variables and name not in self._known and name not in above:
                self._known[name] = self._value(self._variables[name], (*above, name))
        return expression(text).evaluate(self._values | {"variables": dict(self._known)})


def _handled(
    request: Review | Deletion, policy: Json, binding: Json, violation: _Violation
) -> list[str]:
    """The warnings that the binding demands. Raises StatusError if it denies the request."""
    actions = listed(dig(binding, "spec", "validationActions"))
    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
    if "Deny" in actions:
        why = f"ValidatingAdmissionPolicy {names} denied request: {violation.message}"
        name = str(dig(request.object, "metadata", "name") or "")
        whole = forbidden(request.kind, name, why, [{"message": why}])
        code = _CODES.get(violation.reason, 422)
        reason = violation.reason if violation.reason in _CODES else "Invalid"
        raise StatusError(code, reason, whole.message, whole.details)
    if "Warn" in actions:
        said = f"Validation failed for ValidatingAdmissionPolicy {names}: {violation.message}"
        return [said]
    return []


def _operation(request: Review | Deletion) -> str:
    if isinstance(request, Deletion):
        return "DELETE"
    return "CREATE" if request.old is None else "UPDATE"


def _subresource(request: Review | Deletion) -> str:
    return request.subresource if isinstance(request, Review) else ""


def _request(request: Review | Deletion) -> Json:
    kind, obj = request.kind, request.object
    what = {"group": kind.group, "version": kind.stored, "kind": kind.kind}
    which = {"group": kind.group, "version": kind.stored, "resource": kind.plural}
    user = request.user
    return {
        "uid": "",
        "kind": what,
        "resource": which,
        "subResource": _subresource(request),
        "requestKind": what,
        "requestResource": which,
        "requestSubResource": _subresource(request),
        "name": str(dig(obj, "metadata", "name") or ""),
        "namespace": str(dig(obj, "metadata", "namespace") or ""),
        "operation": _operation(request),
        "userInfo": {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {},
        },
        "dryRun": request.dry_run,
        "options": {},
    }


def _labels(obj: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = mapped(dig(obj, "metadata", "labels"))
    return found
