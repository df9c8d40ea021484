# SPDX-License-Identifier: Apache-2.0
"""ConversionReview: conversion between the stored and the requested API version.

A list arrives in one request, so objects are decoded, converted and encoded one by one, and at most
one of them is decoded at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kuota.api.base import Json
from kuota.api.convert import GROUP, VERSIONS, convert

from .review import InvalidReview

V1 = "apiextensions.k8s.io/v1"


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Version(msgspec.Struct, rename="camel"):
    api_version: str = ""


_reviews = msgspec.json.Decoder(_Review)
_versions = msgspec.json.Decoder(_Version)


class Conversion:
    """One review. Each step of `steps` converts one object; then `answer` has the response."""

    def __init__(self, body: bytes) -> None:
        """Decode the review; raises InvalidReview."""
        try:
            review = _reviews.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidReview(f"the body is not a ConversionReview: {error}") from None
        if review.kind != "ConversionReview" or review.api_version != V1:
            said = f"{review.kind} in {review.api_version}"[:200]
            raise InvalidReview(f"expected a ConversionReview in {V1}, not {said}")
        if review.request is None or not review.request.uid:
            raise InvalidReview("the ConversionReview has no request with a uid")
        self._request = review.request
        self._converted: list[msgspec.Raw] = []
        self._fault = ""

    def steps(self) -> Iterator[None]:
        """Convert the objects one by one, up to the first failure."""
        wanted = self._request.desired_api_version
        try:
            for each in self._request.objects:
                self._converted.append(_converted(each, wanted))
                yield
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._fault = f"an object cannot be decoded: {error}"
        except InvalidReview as error:
            self._fault = str(error)

    def answer(self) -> bytes:
        """Return the response: all objects, or the failure."""
        response: Json = {"uid": self._request.uid}
        if self._fault:
            result = {"status": "Failure", "message": self._fault[:2048]}
            response |= {"result": result, "convertedObjects": []}
        else:
            response |= {"result": {"status": "Success"}, "convertedObjects": self._converted}
        whole = {"apiVersion": V1, "kind": "ConversionReview", "response": response}
        return msgspec.json.encode(whole)


def _converted(raw: msgspec.Raw, wanted: str) -> msgspec.Raw:
    found = _versions.decode(raw).api_version
    if found == wanted:
        return raw
    for each in (found, wanted):
        group, _, version = each.partition("/")
        if group != GROUP or version not in VERSIONS:
            raise InvalidReview(f"cannot convert from {found[:100]} to {wanted[:100]}")
    obj = msgspec.json.decode(raw)
    return msgspec.Raw(msgspec.json.encode(convert(obj, wanted.partition("/")[2])))
