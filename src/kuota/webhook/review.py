# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview: requests of an API server and their responses.

A rejection is Forbidden, as in Kueue, with every fault as a cause. A malformed review is
`InvalidReview`; an invalid object in a valid review gets a response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.faults import FieldError
from kuota.api.status import failure_status


def difference(before: Any, after: Any) -> list[Json]:
    """Return the JSON patch from `before` to `after`; empty if they are equal."""
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[Json]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _fields(before: Json, after: Json, path: str) -> Iterator[Json]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in after.items():
        at = f"{path}/{_escaped(name)}"
        if name in before:
            yield from _changes(before[name], value, at)
        else:
            yield {"op": "add", "path": at, "value": value}


def _items(before: list[Any], after: list[Any], path: str) -> Iterator[Json]:
    """Compare item by item, then append or remove at the end."""
    common = min(len(before), len(after))
    for index in range(common):
        yield from _changes(before[index], after[index], f"{path}/{index}")
    for value in after[common:]:
        yield {"op": "add", "path": f"{path}/-", "value": value}
    for index in range(len(before) - 1, common - 1, -1):
        yield {"op": "remove", "path": f"{path}/{index}"}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


V1 = "admission.k8s.io/v1"
CREATE, UPDATE = "CREATE", "UPDATE"
MOST_CAUSES = 100
_NOTHING = msgspec.Raw(b"null")
_LONGEST_MESSAGE = 8192


class InvalidReview(ValueError):
    """The body is not a valid review. The message says why."""


class ReviewedKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class RequestUser(msgspec.Struct, frozen=True):
    """Who sent the write, as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str] | None] | None = None


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempted write. Objects are decoded only when needed."""

    uid: str
    kind: ReviewedKind = ReviewedKind()
    operation: str = ""
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING
    dry_run: bool = False
    user_info: RequestUser = RequestUser()

    def new(self) -> Json:
        """Decode the new object; raises InvalidReview."""
        return _object(self.object, "object")

    def old(self) -> Json:
        """Decode the stored object; raises InvalidReview."""
        return _object(self.old_object, "oldObject")


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class AdmissionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to one request. `status` is None if it is allowed."""

    status: Json | None = None
    patch: list[Json] = []
    warnings: tuple[str, ...] = ()


UNTOUCHED = AdmissionResponse()

_decoder = msgspec.json.Decoder(_Review)


def request_of(body: bytes) -> AdmissionRequest:
    """Decode the request of a review; raises InvalidReview."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReview(f"the body is not an AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or review.api_version != V1:
        said = f"{review.kind} in {review.api_version}"[:200]
        raise InvalidReview(f"expected an AdmissionReview in {V1}, not {said}; send that version")
    if review.request is None or not review.request.uid:
        raise InvalidReview("the AdmissionReview has no request with a uid")
    return review.request


def answer(request: AdmissionRequest, verdict: AdmissionResponse) -> bytes:
    """Return the review with its response."""
    response: Json = {"uid": request.uid, "allowed": verdict.status is None}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = msgspec.json.encode(verdict.patch)  # bytes are written as base64
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    whole = {"apiVersion": V1, "kind": "AdmissionReview", "response": response}
    return msgspec.json.encode(whole)


def changed(before: Json, after: Json) -> AdmissionResponse:
    """Return a response that allows the write with these changes."""
    return AdmissionResponse(patch=difference(before, after)) if after is not before else UNTOUCHED


def judged(
    request: AdmissionRequest, faults: Sequence[FieldError], warnings: Sequence[FieldError] = ()
) -> AdmissionResponse:
    """Return a response that rejects the write for these faults, or allows it without any."""
    said = tuple(map(str, warnings[:MOST_CAUSES]))
    if not faults:
        return AdmissionResponse(warnings=said) if said else UNTOUCHED
    texts = [str(each) for each in faults[:MOST_CAUSES]]
    if len(faults) > MOST_CAUSES:
        texts.append(f"and {len(faults) - MOST_CAUSES} more")
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    status = failure(403, "Forbidden", message)
    status["details"] = _details(request) | {"causes": list(map(_cause, faults[:MOST_CAUSES]))}
    return AdmissionResponse(status=status, warnings=said)


def rejected(code: int, reason: str, message: str) -> AdmissionResponse:
    return AdmissionResponse(status=failure(code, reason, message))


def failure(code: int, reason: str, message: str) -> Json:
    """Return the Status of a rejection."""
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE - 1]}…"
    return failure_status(code, reason, message)


def expected(obj: Json, api_version: str, kind: str) -> Json:
    """Return the object if it is of the expected kind; raises InvalidReview."""
    if obj.get("kind") != kind or obj.get("apiVersion") != api_version:
        said = f"{obj.get('kind')} in {obj.get('apiVersion')}"[:200]
        raise InvalidReview(f"expected {kind} in {api_version}, not {said}")
    return obj


def _details(request: AdmissionRequest) -> Json:
    parts = {"name": request.name, "group": request.kind.group, "kind": request.kind.kind}
    return {key: value for key, value in parts.items() if value}


def _cause(fault: FieldError) -> Json:
    message = fault.message + (f" ({fault.fix})" if fault.fix else "")
    return {"reason": str(fault.type), "message": message, "field": fault.path or "<nil>"}


def _object(raw: msgspec.Raw, name: str) -> Json:
    found: Any = None
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReview(f"{name} of the request is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidReview(f"the request has no {name}")
    return found
