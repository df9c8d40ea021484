# SPDX-License-Identifier: Apache-2.0
"""Exec, attach and port-forward: upgraded connections, over WebSocket and over SPDY/3.1."""
