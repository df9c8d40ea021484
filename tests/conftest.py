# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: properties try the same examples every time.

`HYPOTHESIS_PROFILE=explore pytest …` looks for new ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
