# SPDX-License-Identifier: Apache-2.0
"""Who waits before whom: the positions of pending workloads, as an aggregated API."""
