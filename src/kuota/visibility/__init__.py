# SPDX-License-Identifier: Apache-2.0
"""The visibility API: positions of pending workloads, as an aggregated API."""
