# SPDX-License-Identifier: Apache-2.0
"""How a long-running process keeps the garbage collector out of the way.

Facts and decisions are trees without cycles, so reference counting frees them. The cyclic collector
finds nothing to do and would still walk every live object, over and over.
"""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 100


def calm_collector() -> None:
    """Exempt what is loaded by now from collection, and collect the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
