# SPDX-License-Identifier: Apache-2.0
"""Writes manifests/install.yaml and the generated templates of the Helm chart.

With --check it writes nothing, names what is stale, and exits with 1 if anything is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kuota.install.chart import dumped, generated
from kuota.install.objects import objects
from kuota.install.settings import Settings

_HEADER = (
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Generated from kuota.install; do not edit. To renew: python scripts/install_files.py\n"
)
_TEMPLATES = Path("charts/kuota/templates")


def files() -> dict[Path, str]:
    """What each generated file should hold."""
    texts = {_TEMPLATES / name: text for name, text in generated().items()}
    return texts | {Path("manifests/install.yaml"): _HEADER + dumped(objects(Settings()))}


def main() -> int:
    """Write or check below the current directory."""
    wanted = files()
    stale = [path for path, text in wanted.items() if not _holds(path, text)]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path}: stale; run `python scripts/install_files.py` and look at the diff")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
        print(f"wrote {path}")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
