# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client: requests, errors, caches, leases and events.

This package does not depend on the kind of server. A `Transport` connects it to a real API server
or to the embedded one. Import names from their modules.
"""
