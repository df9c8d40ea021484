# SPDX-License-Identifier: Apache-2.0
"""Compiles and evaluates CEL expressions of users, within limits.

An evaluation ends after 10,000 iterations of comprehensions, which is a limit of the library, and
regular expressions take linear time. Besides CEL's standard library, expressions may use optional
values, strings, math and `cel.bind`. Kubernetes' own libraries (quantities, URLs, IP addresses, the
authorizer) are not available: an expression that uses them does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

POLICY = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""The variables of an admission policy. `authorizer` is not available."""

DEVICE = ("device",)
"""The variable of a selector of devices."""

LONGEST = 10_000
"""The maximum length of an expression."""

UNAVAILABLE = "CEL is not installed; install the extra: pip install 'kuota[policies]'"


class CelError(Exception):
    """An expression that cannot be compiled or evaluated; the message states why."""


class Expression:
    """A compiled expression over these variables."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        """Raises CelError."""
        self._variables = variables
        if len(text) > LONGEST:
            raise CelError(f"is longer than {LONGEST} characters")
        try:
            self._compiled = _environment(variables).compile(text)
        except ImportError:
            raise CelError(UNAVAILABLE) from None
        except Exception as error:
            raise CelError(_first_line(error)) from None

    @property
    def returns(self) -> str:
        """The type of the result, such as BOOL; DYN if it depends on the values."""
        return str(self._compiled.return_type().name()).upper()

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return a bool, str, number, None, list or dict. Raises CelError."""
        try:
            result = self._compiled.eval(data={name: values.get(name) for name in self._variables})
            kind = str(result.type().name()).upper()
            value = result.value() if "ERROR" in kind else result.plain_value()
        except Exception as error:
            raise CelError(_first_line(error)) from None
        if "ERROR" in kind:
            raise CelError(_first_line(value))
        return value


@lru_cache(maxsize=512)
def expression(text: str, variables: tuple[str, ...] = POLICY) -> Expression:
    """Return the compiled expression. Raises CelError."""
    return Expression(text, variables)


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:300]


@cache
def _environment(variables: tuple[str, ...]) -> Any:
    """The environment. The library is large, so it is loaded for the first expression."""
    from cel_expr_python import cel  # type: ignore[import-untyped]
    from cel_expr_python.ext import (  # type: ignore[import-untyped]
        ext_bindings,
        ext_math,
        ext_optional,
        ext_strings,
    )

    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            ext_bindings.ExtBindings(),
        ],
    )
