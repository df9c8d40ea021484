# SPDX-License-Identifier: Apache-2.0
"""Dashboards, alerts and runbooks, generated from one table."""
