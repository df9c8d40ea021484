# SPDX-License-Identifier: Apache-2.0
"""Controllers: carry out Kueue's decisions on any API server, through a `kuota.kube` client."""
