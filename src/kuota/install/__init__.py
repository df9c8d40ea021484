# SPDX-License-Identifier: Apache-2.0
"""What an installation in a cluster consists of: plain objects, made by pure functions.

`kuota install` applies them; `manifests/install.yaml` and the Helm chart are written from them.
Names are Kueue's, so that one controller can take the other's place. See
docs/decisions/011-names-in-a-cluster.md.
"""
