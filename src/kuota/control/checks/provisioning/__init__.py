# SPDX-License-Identifier: Apache-2.0
"""Provisions nodes before a Workload starts: the controller of ProvisioningRequests. Pure."""
