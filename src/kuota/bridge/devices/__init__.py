# SPDX-License-Identifier: Apache-2.0
"""Charges devices that pods request through dynamic resource allocation (DRA)."""
