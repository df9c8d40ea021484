# SPDX-License-Identifier: Apache-2.0
"""Loads the job kinds and admission check controllers of other packages for a command."""

from __future__ import annotations

import click


def load_plugins() -> None:
    """Load what installed packages provide. Ends the command if something cannot be loaded."""
    from kuota.plugins import PluginError, load_check_controllers, load_job_kinds

    try:
        load_job_kinds()
        load_check_controllers()
    except PluginError as error:
        raise click.ClickException(f"{error}; correct or uninstall the package") from error
