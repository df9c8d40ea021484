# SPDX-License-Identifier: Apache-2.0
"""Placement of pods on the domains of a topology: blocks, racks, nodes.

A flavor with a topology has one `Tree` of domains, built from the nodes that the flavor selects. A
placement has two phases. The first one determines how many pods fit each domain, from the nodes up
to the largest domains (`view`). The second one chooses domains at the requested level, and then
distributes the pods downwards, level by level (`fit`).

State is incremental. A change of a node, a pod or a placement changes one leaf and marks its
ancestors. The next placement recomputes only the marked domains.
"""
