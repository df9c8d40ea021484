# SPDX-License-Identifier: Apache-2.0
"""Runs recorded cases of what Kueue does against Kuota. See `__main__` for the command."""
