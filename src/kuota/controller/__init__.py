# SPDX-License-Identifier: Apache-2.0
"""Kuota in the place of Kueue on a cluster: one process with its settings, probes and leadership.

Nothing here decides about workloads. Heavy modules are imported by whoever starts them, for the
webhooks have to answer before the rest is even loaded.
"""
