# SPDX-License-Identifier: Apache-2.0
"""The working directory of a job that `kuota run` submits to the control plane of this machine."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path


def enterable(folder: Path, uid: int) -> bool:
    """Whether the user can enter the directory.

    Judges by the permission bits for the owner and for others, and ignores groups and ACLs.
    """
    return all(_searchable(each, uid) for each in (folder, *folder.parents))


def _searchable(folder: Path, uid: int) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    needed = stat.S_IXUSR if found.st_uid == uid else stat.S_IXOTH
    return bool(found.st_mode & needed)


def default_folder() -> tuple[str, str]:
    """Return the current directory and "", or "" and why the job cannot start there.

    A job of root runs as another user, who may not be able to enter the current directory.
    """
    here = os.getcwd()
    if os.geteuid() != 0:
        return here, ""
    from kuota.up.state_dir import default_state_dir

    running = default_state_dir().running()
    uid = running.run_as if running is not None else None
    if uid is None or uid == 0 or enterable(Path(here), uid):
        return here, ""
    return "", f"starts in an empty directory, because uid {uid} cannot enter {here}"


def path_hint(program: str, folder: str, path: str | None) -> str:
    """Return a hint if the program is a file of the working directory but not on the PATH.

    sbatch finds such a file, but a shell and `kuota run` do not. Otherwise return "".
    """
    here = os.path.join(folder or ".", program)
    if "/" in program or not os.path.isfile(here) or shutil.which(program, path=path):
        return ""
    return f"{program} is not on the PATH. To run the file in {folder or '.'}, write ./{program}"
