# SPDX-License-Identifier: Apache-2.0
"""Runs Jobs as local processes: kubelet, scheduler and Job controller of one machine.

All parts access the API server through `kuota.kube.client.Client`, so they work with any server.
"""
