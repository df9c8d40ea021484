# SPDX-License-Identifier: Apache-2.0
"""Strict decoding: whether JSON has exactly the declared shape, with every fault and its path.

As in Kubernetes, null is the same as absent, a whole number may be written 5.0, and a field that
the shape does not know is a fault. msgspec alone would stop at the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from .faults import Invalid
from .schema.walk import schema_of
from .structure import Cleaning, Compiler, Node, value_faults

T = TypeVar("T")
Text = Callable[[str], Any]
"""Reads a type that is text in JSON: raises ValueError and says what is wrong."""


def decoded(value: Any, shape: type[T], texts: dict[type, Text]) -> T:
    """The value as `shape`; raises Invalid with every fault."""
    known = _compiled(cast(Any, shape), tuple(texts.items()))
    cleaning = Cleaning()
    clean = cleaning.clean(value, known)
    errors = [each.fault("it has no effect") for each in cleaning.unknown]
    errors += value_faults(clean, known)
    if errors:
        raise Invalid(errors)
    return msgspec.convert(clean, shape, dec_hook=lambda type_, text: texts[type_](text))


@cache
def _compiled(shape: type, texts: tuple[tuple[type, Text], ...]) -> Node:
    formats = {type_.__name__.lower(): read for type_, read in texts}
    return Compiler(formats=formats).node(schema_of(shape))
