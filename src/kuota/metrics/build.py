# SPDX-License-Identifier: Apache-2.0
"""What runs: the labels of `kueue_build_info`. Python stands where Kueue names its Go."""

from __future__ import annotations

import platform

from kuota import __version__


def build_labels() -> tuple[str, ...]:
    """git_version, git_commit, build_date, go_version, compiler, platform."""
    machine = f"{platform.system()}/{platform.machine()}".lower()
    language = f"python{platform.python_version()}"
    return f"v{__version__}", "", "", language, platform.python_implementation(), machine
