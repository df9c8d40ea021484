# SPDX-License-Identifier: Apache-2.0
"""Jobs as local processes: what a cluster's kubelet, scheduler and Job controller would do.

Everything here reaches the API server through `kuota.kube.client.Client`, so that it cannot tell
the embedded server from another one.
"""
