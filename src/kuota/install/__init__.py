# SPDX-License-Identifier: Apache-2.0
"""The objects of an installation in a cluster, created by pure functions.

`kuota install` applies them. `manifests/install.yaml` and the Helm chart are generated from them.
Names are Kueue's, so that either controller can replace the other. See
docs/decisions/011-names-in-a-cluster.md.
"""
