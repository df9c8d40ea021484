# SPDX-License-Identifier: Apache-2.0
"""Talking to a Kubernetes API: requests, errors, caches, leases and events.

Nothing here knows whether the server is a real one or ours: that is the `Transport`'s secret.
Import what you need from its module.
"""
