# SPDX-License-Identifier: Apache-2.0
"""Runs the whole system on one machine: API server, controllers and runner."""
