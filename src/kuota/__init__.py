# SPDX-License-Identifier: Apache-2.0
"""Kuota rations scarce hardware among teams, with Kueue's objects and Kueue's decisions."""

__version__ = "0.1.0"
