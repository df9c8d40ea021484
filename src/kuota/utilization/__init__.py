# SPDX-License-Identifier: Apache-2.0
"""Utilization of devices: readings of exporters, and which allocated devices are idle."""
