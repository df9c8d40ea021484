# SPDX-License-Identifier: Apache-2.0
"""Loads the job kinds of other packages for a command."""

from __future__ import annotations

import click


def load_plugins() -> None:
    """Load the job kinds of installed packages. Ends the command if one cannot be loaded."""
    from kuota.plugins import PluginError, load_job_kinds

    try:
        load_job_kinds()
    except PluginError as error:
        raise click.ClickException(f"{error}; correct or uninstall the package") from error
