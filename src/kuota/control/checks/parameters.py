# SPDX-License-Identifier: Apache-2.0
"""The object that the parameters of an AdmissionCheck refer to. Pure."""

from __future__ import annotations

from kuota.api.kueue import GROUP, AdmissionCheck


class BadParameters(ValueError):
    """The parameters are missing, or do not refer to an object of the right kind."""


def parameters_name(check: AdmissionCheck, kind: str) -> str:
    """Return the name of the object of this kind that a check refers to. Raises BadParameters."""
    found = check.spec.parameters
    if found is None:
        raise BadParameters(f"spec.parameters is missing; refer to a {kind}")
    if found.api_group != GROUP:
        raise BadParameters(f"spec.parameters.apiGroup is {found.api_group!r}; use {GROUP!r}")
    if found.kind != kind:
        raise BadParameters(f"spec.parameters.kind is {found.kind!r}; use {kind!r}")
    if not found.name:
        raise BadParameters(f"spec.parameters.name is empty; name a {kind}")
    return found.name
