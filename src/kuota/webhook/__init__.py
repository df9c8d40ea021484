# SPDX-License-Identifier: Apache-2.0
"""Admission and conversion webhooks over HTTPS.

The rules are in `kuota.api.defaults`, `kuota.api.rules` and `kuota.bridge.jobs`. This package
contains the paths of Kueue's webhook configurations, the reviews, and the certificates. Import
names from their modules.
"""
