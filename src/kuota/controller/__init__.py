# SPDX-License-Identifier: Apache-2.0
"""The controller process on a cluster: settings, probes, leader election, servers.

Nothing here makes decisions about workloads. Large modules are imported where they are started,
because the webhooks must respond before the rest is loaded.
"""
