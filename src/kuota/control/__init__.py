# SPDX-License-Identifier: Apache-2.0
"""Controllers: make Kueue's decisions true on any API server, through a `kuota.kube` client."""
