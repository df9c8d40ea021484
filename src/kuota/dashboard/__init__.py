# SPDX-License-Identifier: Apache-2.0
"""The web dashboard: pages, models of what they show, live updates, and actions."""
