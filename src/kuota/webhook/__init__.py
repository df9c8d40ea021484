# SPDX-License-Identifier: Apache-2.0
"""What an API server asks before it stores an object: admission and conversion, over HTTPS.

The judgement itself is `kuota.api.defaults`, `kuota.api.rules` and `kuota.bridge.jobs`; here are
the paths that Kueue's own webhook configurations name, the reviews that arrive there, and the
certificates that they arrive under. Import what you need from its module.
"""
