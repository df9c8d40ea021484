# SPDX-License-Identifier: Apache-2.0
"""What is published for Prometheus: Kueue's metrics, under Kueue's names."""
