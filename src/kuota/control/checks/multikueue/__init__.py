# SPDX-License-Identifier: Apache-2.0
"""The MultiKueue admission check: runs admitted work in other clusters."""
